"""What the text tells of ranks: which tests only some of them pass."""

from __future__ import annotations

import ast

from drygrad.static.context import Context
from drygrad.static.syntax import assigned_in, called, scope_of

_RANK = "torch.distributed.get_rank"
_VARIABLE = "RANK"
_READING = ("os.environ.get", "os.getenv")


def is_of_some_ranks(test: ast.expr, ctx: Context) -> bool:
    """Say whether only some ranks pass a test, as ``rank == 0`` or ``not rank``: those of one number, or all others."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(is_of_some_ranks(value, ctx) for value in values) and not any(
                _counts_ranks(value, ctx) for value in values
            )
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return is_rank(operand, ctx) or (isinstance(operand, ast.Compare) and is_of_some_ranks(operand, ctx))
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() | ast.Gt() | ast.Lt()], comparators=[right]):
            return (is_rank(left, ctx) and _is_number(right)) or (is_rank(right, ctx) and _is_number(left))
        case _:
            return is_rank(test, ctx)


def is_rank(node: ast.expr, ctx: Context) -> bool:
    """Say whether an expression is the rank of the process: by what it is, or what its name is bound to."""
    if isinstance(node, ast.Call):
        if ctx.name(node.func) == _RANK:
            return not node.args and not node.keywords
        if called(node) == "int" and node.args:
            return _is_read(node.args[0], ctx)
    if not isinstance(node, ast.Name):
        return False
    scope = scope_of(node, ctx)
    bound = [statement for name, statement in assigned_in(scope) if name == node.id]
    if not bound and scope is not ctx.tree:
        bound = [statement for name, statement in assigned_in(ctx.tree) if name == node.id]
    values = [statement.value for statement in bound if isinstance(statement, ast.Assign)]
    return bool(values) and len(values) == len(bound) and all(_is_call_of_rank(value, ctx) for value in values)


def _is_call_of_rank(value: ast.expr, ctx: Context) -> bool:
    return isinstance(value, ast.Call) and is_rank(value, ctx)


def _is_read(node: ast.expr, ctx: Context) -> bool:
    """Say whether an expression reads the variable of the rank."""
    if isinstance(node, ast.Subscript):
        return ctx.name(node.value) == "os.environ" and _is_variable(node.slice)
    return isinstance(node, ast.Call) and ctx.name(node.func) in _READING and _is_variable(node.args[0])


def _is_variable(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == _VARIABLE


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _counts_ranks(node: ast.expr, ctx: Context) -> bool:
    """Say whether a test also asks how many ranks there are: then there may be one."""
    return any(
        (isinstance(inner, ast.Name) and "world" in inner.id)
        or (isinstance(inner, ast.Attribute) and "world" in inner.attr)
        for inner in ast.walk(node)
    )
