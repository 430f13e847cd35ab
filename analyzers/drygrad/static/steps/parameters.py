"""Whose parameters an optimizer holds, and which models surely share none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from drygrad.model import Finding
from drygrad.static.context import Context
from drygrad.static.facts.iteration import contained_modules
from drygrad.static.facts.values import Mapped, Object, ParameterList, Sequence, Tensor, Value
from drygrad.static.roles import rests_on_name, role_of, role_of_value
from drygrad.static.steps.events import Event
from drygrad.static.syntax import argument

_ADDING = frozenset({"setattr", "add_module", "register_module", "append", "insert", "extend"})
"""What makes a model a part of another one."""
_DEPTH = 4
"""How far down modules within modules are looked into: a class may hold itself."""


def receiver_of(event: Event) -> ast.expr | None:
    """Return the expression of what a step is done to: the optimizer, also in ``scaler.step(optimizer)``; the model."""
    node = event.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if event.scaler is not None and event.kind in ("step", "unscale"):
        return node.args[0] if node.args else None
    return node.func.value


def resting_on(ctx: Context, finding: Finding, *events: Event) -> Finding:
    """Let a finding say what only a name tells about what some steps are done to."""
    for event in events:
        receiver = receiver_of(event)
        if receiver is not None and rests_on_name(ctx, receiver):
            text = f"{ctx.source_of(receiver)} is taken for what its name says: nothing else here tells what it is"
            return replace(finding, detail=text)
    return finding


def models_of(optimizer: Value) -> tuple[Object, ...] | None:
    """Return the models whose parameters an optimizer was given when it was made; None where that is not known."""
    if not isinstance(optimizer, Object) or role_of_value(optimizer) != "optimizer" or optimizer.node is None:
        return None
    given = optimizer.arguments.get("params", 0)
    return tuple(_models_in(given)) if given is not None and _is_all_known(given) else None


def _models_in(given: Value) -> Iterator[Object]:
    match given:
        case ParameterList(module=Object() as module):
            yield module
        case Sequence(items=items) if items is not None:
            for item in items:
                yield from _models_in(item)
        case Mapped(entries=entries):
            yield from _models_in(entries["params"])
        case _:
            return


def _is_all_known(given: Value) -> bool:
    match given:
        case ParameterList(module=Object(node=node)):
            return node is not None
        case Sequence(kind="list", items=items) if items:
            return all(isinstance(item, Mapped) and _is_all_known(item) for item in items)
        case Mapped(entries=entries):
            return "params" in entries and _is_all_known(entries["params"])
        case _:
            return False


def are_apart(ctx: Context, first: Value, second: Value) -> bool:
    """Say whether two models surely share no parameter: each was made by itself, and neither holds the other."""
    if not isinstance(first, Object) or not isinstance(second, Object) or None in (first.node, second.node):
        return False
    if first.node is second.node or not (_stands_alone(ctx, first) and _stands_alone(ctx, second)):
        return False
    if not {first.node, second.node}.isdisjoint(ctx.derived(_put_into_others)):
        return False
    return not (_holds(ctx, first, second, _DEPTH) or _holds(ctx, second, first, _DEPTH))


def _put_into_others(ctx: Context) -> frozenset[ast.AST]:
    """Return where those models are made that become parts of others: ``model.fc = head``, ``layers.append(block)``."""
    parts: list[ast.expr] = []
    for statement in ctx.nodes(ast.Assign):
        if any(_is_of_another(target) for target in statement.targets):
            parts.append(statement.value)
    for call in ctx.nodes(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ctx.name(call.func)
        parts += call.args if name in _ADDING else ()
    listed = (part.elts if isinstance(part, (ast.List, ast.Tuple)) else [part] for part in parts)
    values = (ctx.value(part) for row in listed for part in row)
    return frozenset(value.node for value in values if isinstance(value, Object) and value.node is not None)


def _is_of_another(target: ast.expr) -> bool:
    """Say whether a target is an element, or an attribute of another object than ``self``."""
    of_self = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return isinstance(target, (ast.Attribute, ast.Subscript)) and not of_self


def _stands_alone(ctx: Context, model: Object) -> bool:
    """Say whether a model was given nothing that may have parameters; an ``nn.Sequential`` is looked into instead."""
    if contained_modules(model) is not None:
        return True
    call = model.node
    if isinstance(call, ast.Call) and ctx.name(call.func) == "copy.deepcopy":
        return True
    given = [*call.args, *(k.value for k in call.keywords)] if isinstance(call, ast.Call) else []
    return isinstance(call, ast.Call) and not any(_may_have_parameters(ctx, node) for node in given)


def _may_have_parameters(ctx: Context, node: ast.expr) -> bool:
    value = ctx.value(node)
    if isinstance(value, Tensor):
        return value.parameter
    return role_of(ctx, node) == "model" or isinstance(node, ast.Starred)


def _holds(ctx: Context, model: Object, other: Object, depth: int) -> bool:
    """Say whether a model, or what it holds, was made where another one was."""
    if model.node is other.node:
        return True
    if depth == 0 or not model.is_module:
        return depth == 0
    held = contained_modules(model)
    if held is not None:
        parts = held.items if held.items is not None else (held.element,)
    else:
        parts = tuple(ctx.facts.attributes(model).values()) if model.cls is not None else ()
    return any(isinstance(part, Object) and _holds(ctx, part, other, depth - 1) for part in parts)


def optimizer_value(ctx: Context, event: Event) -> Value:
    """Return what is known of the optimizer, or the model, of an event."""
    return ctx.value(receiver_of(event))


def may_clear(ctx: Context, clearing: Event, step: Event) -> bool:
    """Say whether what clears gradients may clear those that a step applies: not where it surely is of other models."""
    mine = models_of(optimizer_value(ctx, step))
    cleared = optimizer_value(ctx, clearing)
    theirs = models_of(cleared) if "optimizer" in clearing.roles else (cleared,)
    if not mine or not theirs:
        return True
    return not all(are_apart(ctx, one, other) for one in mine for other in theirs)


def made_at(optimizer: Value) -> ast.Call | None:
    """Return the call that made an optimizer."""
    node = optimizer.node if isinstance(optimizer, Object) else None
    return node if isinstance(node, ast.Call) and argument(node, "params", 0) is not None else None
