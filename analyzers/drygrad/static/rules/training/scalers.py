"""What a GradScaler does in a training loop."""

from __future__ import annotations

import ast

from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Object
from drygrad.static.steps import Event, Training


def scaled_backwards(training: Training) -> list[Event]:
    """Return the backwards of losses that a scaler has scaled."""
    return [event for event in training.of("backward") if event.scaler is not None]


def scaled_steps(training: Training) -> list[Event]:
    """Return the optimizer steps that a scaler takes."""
    return [event for event in training.of("step") if event.scaler is not None]


def may_be_disabled(ctx: Context, training: Training) -> bool:
    """Say whether a scaler of the body is surely switched off: ``GradScaler(enabled=False)``."""
    for event in training.of("scale", "update", "unscale", "step"):
        if (
            event.scaler is None
            or not isinstance(event.node, ast.Call)
            or not isinstance(event.node.func, ast.Attribute)
        ):
            continue
        value = ctx.value(event.node.func.value)
        if isinstance(value, Object) and value.arguments.get("enabled", 5) == Constant(False):
            return True
    return False


def text_of_scaler(ctx: Context, event: Event) -> str | None:
    """Return the scaler as the call of one of its methods names it."""
    node = event.node
    if event.kind == "backward" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return (
        ctx.source_of(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    )


def optimizer_of(step: Event) -> ast.expr | None:
    """Return the optimizer that a step is taken with."""
    if not isinstance(step.node, ast.Call) or not isinstance(step.node.func, ast.Attribute):
        return None
    if step.scaler is not None:
        return step.node.args[0] if step.node.args else None
    return step.node.func.value


def text_of_optimizer(ctx: Context, step: Event) -> str | None:
    """Return the optimizer as its step names it."""
    optimizer = optimizer_of(step)
    return ctx.source_of(optimizer) if optimizer is not None else None
