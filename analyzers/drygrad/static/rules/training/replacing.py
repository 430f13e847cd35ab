"""Layers of a model that are replaced: by a statement, or by a function that it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context, FunctionNode
from drygrad.static.datasets import called_by
from drygrad.static.facts.values import UNKNOWN, Class, Function, Method, Object
from drygrad.static.parameters import has_parameters
from drygrad.static.syntax import bound_names, parameter_names
from drygrad.static.tree import walk


def replacement(ctx: Context, node: ast.stmt, model: str) -> tuple[ast.expr, ast.stmt | FunctionNode] | None:
    """Return where a statement replaces a layer of a model, and the code that does so; None where it replaces none."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)):
        return None  # what only some paths replace may be meant
    if not isinstance(node, ast.AnnAssign) and _is_replacement(ctx, node, model):
        return node.targets[0] if isinstance(node, ast.Assign) else node.value, node
    for call in (n for n in walk(node) if isinstance(n, ast.Call)):
        for function, name in _known_inside(ctx, call, model):
            if any(isinstance(n, ast.stmt) and _is_replacement(ctx, n, name) for n in walk(function)):
                return call, function
    return None


def grows(node: ast.AST, optimizer: str) -> bool:
    """Say whether an optimizer is made anew or given more parameters."""
    for child in walk(node):
        if isinstance(child, ast.Attribute) and child.attr in ("add_param_group", "param_groups"):
            return True
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == optimizer:
            return True
    return False


def _is_replacement(ctx: Context, node: ast.stmt, model: str) -> bool:
    """Say whether a statement assigns a layer with parameters to an attribute, or item, of the model."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[owner, _, layer])):
            return _is_part(ctx, owner, model) and _adds_parameters(ctx, owner, layer)
        case _:
            pass
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    while isinstance(target, ast.Subscript):
        target = target.value
    value = ctx.value(node.value)
    name = ctx.text(target) or ""
    is_layer = name.startswith(f"{model}.") or (name == model and target is not node.targets[0])
    is_tied = (ctx.text(node.value) or "").startswith(f"{model}.")
    return is_layer and not is_tied and not _goes_on(ctx, node) and has_parameters(value, ctx)


def _is_part(ctx: Context, owner: ast.expr, model: str) -> bool:
    """Say whether an expression is the model, a part of it, or what a loop takes from its parts."""
    text = ctx.text(owner) or ""
    if text == model or text.startswith(f"{model}."):
        return True
    loops = (loop for loop in ctx.loops(owner) if isinstance(loop, ast.For) and text in bound_names(loop.target))
    parts = (ctx.text(n) or "" for loop in loops for n in walk(loop.iter) if isinstance(n, (ast.Name, ast.Attribute)))
    return any(part == model or part.startswith(f"{model}.") for part in parts)


def _adds_parameters(ctx: Context, owner: ast.expr, layer: ast.expr) -> bool:
    """Say whether a layer has parameters that are not those of what it replaces, which may be a part of it."""
    value, name = ctx.value(layer), ctx.text(owner)
    wraps = any(isinstance(n, ast.Name) and n.id == name for n in walk(layer))
    if not wraps:
        return has_parameters(value, ctx)
    cls = value.cls if isinstance(value, Object) else None
    made = [n for n in walk(cls.node) if isinstance(n, ast.Call)] if cls is not None else []
    return any(ctx.name(n.func) == "torch.nn.Parameter" or has_parameters(ctx.value(n), ctx) for n in made)


def _goes_on(ctx: Context, node: ast.Assign) -> bool:
    """Say whether what is replaced becomes a part of the new layer."""
    old = ast.unparse(node.targets[0])
    uses = (n for n in walk(node.value) if isinstance(n, (ast.Attribute, ast.Subscript)) and ast.unparse(n) == old)
    return any(not isinstance(ctx.parent(use), ast.Attribute) for use in uses)


def _known_inside(ctx: Context, call: ast.Call, model: str) -> Iterator[tuple[FunctionNode, str]]:
    """Yield the functions of the file that a call runs and that get hold of the model, with its name there."""
    owner = ctx.text(call.func.value) if isinstance(call.func, ast.Attribute) else None
    known = [*called_by(call, ctx)] or [*_only_method(ctx, call)]
    for function, parameters in known:
        own = parameter_names(function)[:1]
        if owner is not None and own and own != parameters[:1]:
            if owner == model:
                yield function, own[0]
            elif model.startswith(f"{owner}."):
                yield function, own[0] + model[len(owner) :]
        for given, parameter in zip(call.args, parameters, strict=False):
            if ctx.text(given) == model:
                yield function, parameter


def _only_method(ctx: Context, call: ast.Call) -> Iterator[tuple[FunctionNode, list[str]]]:
    """Yield the method that a call of an object unknown must mean: no other class of the file has one of its name."""
    value = ctx.value(call.func)
    is_unknown = value is UNKNOWN or (isinstance(value, Method) and value.receiver is UNKNOWN)
    if not isinstance(call.func, ast.Attribute) or not is_unknown:
        return
    named = [found for cls in ctx.classes() if (found := _member(cls, call.func.attr)) is not None]
    if len(named) == 1:
        yield named[0], parameter_names(named[0])[1:]


def _member(cls: Class, name: str) -> FunctionNode | None:
    member = cls.members.get(name)
    return member.node if isinstance(member, Function) and isinstance(member.node, ast.FunctionDef) else None
