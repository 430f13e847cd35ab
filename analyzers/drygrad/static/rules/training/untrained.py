"""Optimizers that surely hold nothing that is trained: frozen parameters, or those of another model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.static.context import Context, Loop
from drygrad.static.facts.values import UNKNOWN, Method, Object, Reference, Value
from drygrad.static.steps import Event, Training
from drygrad.static.steps.parameters import are_apart
from drygrad.static.syntax import argument, body_nodes, bound_names, called
from drygrad.static.tree import walk
from drygrad.static.uses import text_of


def all_frozen(ctx: Context, made: ast.Call, models: tuple[Object, ...]) -> bool:
    """Say whether all that an optimizer was given was frozen by then, and nothing in the file lets any of it learn."""
    return all(model.frozen for model in models) and not any(_reaches(ctx, node, made) for node in ctx.derived(_thaws))


def _thaws(ctx: Context) -> list[ast.expr]:
    """Return what the file sets ``requires_grad`` of to anything but False, and where it puts layers from outside."""
    found: list[ast.expr] = []
    for node in ctx.nodes(ast.Call):
        switches = called(node) == "requires_grad_" and not _is_false(argument(node, "requires_grad", 0))
        if switches or called(node) in ("setattr", "add_module", "register_parameter"):
            found.append(node.func)
    for node in ctx.nodes(ast.Assign):
        value = ctx.value(node.value)
        is_layer = value is UNKNOWN or (isinstance(value, Object) and value.is_module)
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == "requires_grad":
                found.extend([] if _is_false(node.value) else [target])
            elif isinstance(target, (ast.Attribute, ast.Subscript)) and is_layer and not _is_own(target):
                found.append(target)
    return found


def _reaches(ctx: Context, changed: ast.expr, made: ast.Call) -> bool:
    """Say whether a change may be one of what an optimizer holds: not of another attribute of the same object."""
    given = argument(made, "params", 0)
    owner = given.func.value if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) else None
    mine, theirs = (text_of(owner) if owner is not None else None), text_of(changed)
    if mine is None or theirs is None or ctx.function(changed) is not ctx.function(made):
        return True
    same_root = re.split(r"[.\[]", mine)[0] == re.split(r"[.\[]", theirs)[0]
    return not same_root or mine.startswith(theirs) or theirs.startswith(mine)


def _is_own(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def trained_instead(ctx: Context, training: Training, step: Event, models: tuple[Object, ...]) -> Event | None:
    """Return the forward of the model that a loop trains, if it is surely none of those that its optimizer holds."""
    loop = step.loops[0] if step.loops else None
    backwards = [b for b in training.within(loop, "backward") if b.index < step.index] if loop is not None else []
    if loop is None or not backwards:
        return None
    forwards = [f for f in training.within(loop, "forward") if f.index < backwards[-1].index]
    bodies = [loop, *_functions_of(ctx, training, loop)]
    used = [ctx.value(node) for body in bodies for node in body_nodes(body) if isinstance(node, ast.expr)]
    meets = any(not are_apart(ctx, value, model) for value in used if _is_model(value) for model in models)
    if meets or not forwards or not all(_is_understood(ctx, body) for body in bodies):
        return None
    return forwards[0] if all(_is_model(_model_of(ctx, f)) for f in forwards) else None


def _model_of(ctx: Context, forward: Event) -> Value:
    return ctx.value(forward.node.func) if isinstance(forward.node, ast.Call) else UNKNOWN


def _is_model(value: Value) -> bool:
    is_loss = isinstance(value, Object) and value.type.startswith("torch.nn.") and value.type.endswith("Loss")
    return isinstance(value, Object) and value.is_module and not is_loss


def _functions_of(ctx: Context, training: Training, loop: Loop) -> Iterator[ast.AST]:
    found = {ctx.function(e.node) for e in training.events if e.in_loop(loop) and loop not in ctx.loops(e.node)}
    yield from (function for function in found if function is not None)


def _is_understood(ctx: Context, body: ast.AST) -> bool:
    """Say whether it is known of each call what it calls, or on what it is: a batch, something made here."""
    made = {name for node in body_nodes(body) if isinstance(node, (ast.Assign, ast.For)) for name in _bound_in(node)}
    made |= bound_names(body.target) if isinstance(body, ast.For) else set()
    return all(_is_known(ctx, node, made) for node in body_nodes(body) if isinstance(node, ast.Call))


def _bound_in(node: ast.Assign | ast.For) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {name for target in targets for name in bound_names(target)}


def _is_known(ctx: Context, call: ast.Call, made: set[str]) -> bool:
    value = ctx.value(call.func)
    if isinstance(value, Method) and value.receiver is not UNKNOWN:
        return True
    if not isinstance(value, Method) and value is not UNKNOWN:
        return not isinstance(value, Reference) or value.name.startswith(("torch.", "builtins."))
    root = next((n for n in walk(call.func) if isinstance(n, ast.Name)), None)
    return isinstance(call.func, ast.Attribute) and root is not None and root.id in made
