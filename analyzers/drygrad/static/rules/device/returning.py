"""Functions that move nested data by returning copies of it: ``to_device(batch, device)``."""

from __future__ import annotations

import ast

from drygrad.static.context import Context, FunctionNode
from drygrad.static.syntax import body_nodes, parameter_names

_TENSOR_TESTS = frozenset({"torch.is_tensor", "builtins.isinstance"})


def returned_move(function: FunctionNode, ctx: Context) -> ast.expr | None:
    """Return where a function returns a moved copy of its first parameter, a tensor; None if it may act in place."""
    names = parameter_names(function)
    nodes = [*body_nodes(function)]
    if not names or any(_acts_in_place(node) for node in nodes):
        return None
    returned = (node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None)
    moves = [value for value in returned if _is_move(value, names[0])]
    return moves[0] if moves and all(_is_for_tensors(move, names[0], ctx) for move in moves) else None


def _is_move(node: ast.expr, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="to" | "cuda")):
            return owner == name
        case _:
            return False


def _is_for_tensors(move: ast.expr, name: str, ctx: Context) -> bool:
    """Say whether the copy is returned only where a test says that the parameter is a tensor."""
    test = getattr(ctx.parent(ctx.statement(move)), "test", None)
    match test:
        case ast.Call(func=called, args=[ast.Name(id=tested), *kinds]) if tested == name:
            return ctx.name(called) in _TENSOR_TESTS and all(ctx.name(kind) == "torch.Tensor" for kind in kinds)
        case _:
            return False


def _acts_in_place(node: ast.AST) -> bool:
    """Say whether a node stores into an object, or calls a method for its effect alone."""
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return not isinstance(node.ctx, ast.Load)
    match node:
        case (
            ast.Expr(value=ast.Call(func=ast.Attribute()))
            | ast.Return(value=ast.Call(func=ast.Attribute(attr="update")))
        ):
            return True
        case _:
            return isinstance(node, (ast.Yield, ast.Global, ast.Nonlocal))
