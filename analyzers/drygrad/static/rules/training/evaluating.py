"""Forward passes that evaluate a model which training has left in training mode."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from drygrad.static.context import Context
from drygrad.static.facts.values import Object, Tensor
from drygrad.static.rules.training.modes import mode_layer
from drygrad.static.steps import Event, Training
from drygrad.static.steps.parameters import are_apart, receiver_of
from drygrad.static.syntax import bound_names
from drygrad.static.tree import walk

_NOISE = ("randn", "rand", "randn_like", "rand_like", "normal", "randint")


def evaluated_as_trained(ctx: Context, training: Training, forward: Event) -> tuple[Event, str] | None:
    """Return the backward that trained the model of a forward before it, and the layer that still acts as in training.

    None where the forward is a part of the training, or may run in evaluation mode.
    """
    call = forward.node
    if not isinstance(call, ast.Call) or forward.receiver is None or _is_statistic_or_noise(ctx, call):
        return None
    trained = _trained_by(training, forward)
    if trained is None or _only_repeats(ctx, forward, trained) or not _is_separate(ctx, training, forward, trained):
        return None
    if _may_be_switched(ctx, training, forward, trained):
        return None
    value = ctx.value(call.func)
    layer = mode_layer(ctx, value) if isinstance(value, Object) and value.training is not False else None
    return (trained, layer) if layer is not None else None


def _trained_by(training: Training, forward: Event) -> Event | None:
    """Return the last backward before a forward, if the same model runs forward for it."""
    before = [b for b in training.of("backward") if b.index < forward.index]
    if not before or not before[-1].loops:
        return None
    mine = (f for f in training.of("forward") if f.receiver == forward.receiver and f.index < before[-1].index)
    return before[-1] if any(f.loops[:1] == before[-1].loops[:1] for f in mine) else None


def _is_separate(ctx: Context, training: Training, forward: Event, trained: Event) -> bool:
    """Say whether a forward is no part of the training: it stands behind the training loop, no backward behind it."""
    later = [b for b in training.of("backward", "autograd_grad") if b.index > forward.index]
    shared = [loop for loop in forward.loops if loop in trained.loops]
    if ctx.grad_enabled(forward.statement) is not False:
        return not shared and not later and not training.of("autograd_grad")
    if not shared:
        return not any(training.within(loop, "backward") for loop in forward.loops)
    if any(training.within(loop, "backward") for loop in forward.loops if loop not in shared):
        return False
    return shared[0] is not trained.loops[0] and not any(b.in_loop(shared[-1]) for b in later)


def _may_be_switched(ctx: Context, training: Training, forward: Event, trained: Event) -> bool:
    """Say whether anything may have set the model's mode: eval() anywhere, train() or unseen code since then."""
    if any(_may_concern(ctx, event, forward) for event in training.of("eval")):
        return True
    shared = next((loop for loop in forward.loops if loop in trained.loops), None)
    for event in training.of("train", "unseen"):
        is_between = trained.index < event.index < forward.index
        if event.kind == "train" and is_between and _may_concern(ctx, event, forward):
            return True
        around = is_between or (shared is not None and event.in_loop(shared))
        if event.kind == "unseen" and around and event.roles & {"model", "self"}:
            return True
    return False


def _may_concern(ctx: Context, event: Event, forward: Event) -> bool:
    """Say whether a switch of a mode may be that of the model that runs forward."""
    assert isinstance(forward.node, ast.Call)
    return event.receiver == forward.receiver or not are_apart(
        ctx, ctx.value(receiver_of(event)), ctx.value(forward.node.func)
    )


def _is_statistic_or_noise(ctx: Context, call: ast.Call) -> bool:
    """Say whether a forward may be meant as in training: its result is not used, or it makes samples of noise."""
    values = [ctx.value(argument) for argument in call.args]
    return isinstance(ctx.parent(call), ast.Expr) or any(isinstance(v, Tensor) and v.made_by(*_NOISE) for v in values)


def _only_repeats(ctx: Context, forward: Event, trained: Event) -> bool:
    """Say whether a model is run on the same input several times: ``for _ in range(n)``, for its dropout."""
    inner = next((loop for loop in forward.loops[:1] if loop not in trained.loops), None)
    if isinstance(inner, ast.For) and _is_count(inner.target, inner.iter, inner.body):
        return True
    around = ctx.enclosing(forward.node, ast.ListComp, ast.GeneratorExp)
    return around is not None and any(_is_count(g.target, g.iter, [around.elt]) for g in around.generators)


def _is_count(target: ast.expr, source: ast.expr, body: Sequence[ast.AST]) -> bool:
    """Say whether the turns of a loop differ by nothing."""
    counted = isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "range"
    names = bound_names(target)
    return counted and not any(isinstance(n, ast.Name) and n.id in names for part in body for n in walk(part))
