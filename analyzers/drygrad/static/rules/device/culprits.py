"""Which call a tensor on the wrong device is to be laid at: its factory's, or that of the function which returns it."""

from __future__ import annotations

import ast

from drygrad.static.context import Context, FunctionNode
from drygrad.static.rules.device.meetings import Meeting, tensor_parameters
from drygrad.static.syntax import bound_names, parameter_names


def culprit_of(
    meeting: Meeting, method: ast.FunctionDef, methods: list[ast.FunctionDef], ctx: Context
) -> ast.Call | None:
    """Return where the tensor could have been made elsewhere: in the factory's call, or in that of a function.

    A function of the file that is handed no tensor cannot know the device; its caller does.
    """
    node = meeting.factory.node
    made_in = ctx.function(node)
    if made_in in methods:
        return node
    if not isinstance(made_in, ast.FunctionDef) or not isinstance(ctx.parent(made_in), ast.Module):
        return None
    if _was_given(meeting.made, ctx) or not _is_reached(made_in, methods, ctx):
        return None
    if tensor_parameters(made_in, ctx):
        return node
    calls = [site.node for site in ctx.callers(made_in) if isinstance(site.node, ast.Call)]
    handed = [call for call in calls if ctx.function(call) is method or _knows_place(ctx.function(call), ctx)]
    return next(iter(handed), None)


def _was_given(node: ast.expr, ctx: Context) -> bool:
    """Say whether an operand is a parameter as it was given: then its place is the caller's matter."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner)) | ast.Compare(left=inner):
                node = inner
            case _:
                return False
    function = ctx.function(node)
    given = parameter_names(function) if function is not None else []
    body = function.body if function is not None else []
    bound = {name for statement in body for name in bound_names(statement)}
    return node.id != "self" and node.id in given and node.id not in bound


def _is_reached(function: FunctionNode, methods: list[ast.FunctionDef], ctx: Context, deepest: int = 3) -> bool:
    """Say whether a method calls a function of the file, itself or by way of another."""
    callers = {ctx.function(site.node) for site in ctx.callers(function)}
    return any(caller in methods for caller in callers) or (
        deepest > 0
        and any(_is_reached(c, methods, ctx, deepest - 1) for c in callers if c is not None and c is not function)
    )


def _knows_place(function: FunctionNode | None, ctx: Context) -> bool:
    """Say whether a function of the file is handed a tensor."""
    if not isinstance(function, ast.FunctionDef) or not isinstance(ctx.parent(function), ast.Module):
        return False
    return bool(tensor_parameters(function, ctx))
