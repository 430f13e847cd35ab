"""Texts of expressions as fixes put them together."""

from __future__ import annotations

import ast

from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.editing import ATOMS
from drygrad.static.facts.values import INTEGERS, Tensor
from drygrad.static.tree import walk

_SUMMANDS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult)


def epsilon(tensor: Tensor | None) -> str:
    """Return a small number that does not vanish in the tensor's dtype."""
    return "1e-6" if tensor is not None and tensor.dtype == "float16" else "1e-8"


def plus(node: ast.expr, amount: str, ctx: Context, *, is_argument: bool) -> list[Edit | None]:
    """Add an amount to an expression where it stands, as an argument or as an operator's operand."""
    is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, _SUMMANDS)
    if is_sum or (is_argument and _is_tight(node)):
        return [ctx.insert_after(node, f" + {amount}")]
    if _is_tight(node):
        return [ctx.insert_before(node, "("), ctx.insert_after(node, f" + {amount})")]
    return [None]


def is_counted(tensor: Tensor | None) -> bool:
    """Say whether a tensor is known to hold integers: ``exp`` and ``sigmoid`` convert them, other functions do not."""
    return tensor is not None and tensor.dtype is not None and (tensor.dtype in INTEGERS or tensor.dtype == "bool")


def _is_tight(node: ast.expr) -> bool:
    return isinstance(node, ATOMS) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))


def stays(node: ast.expr, since: ast.expr, until: ast.expr | ast.stmt, ctx: Context) -> bool:
    """Say whether an expression means at one place what it meant at an earlier one: none of its names is bound between.

    Only plain names are followed; a change in place between the two counts as none.
    """
    scope = ctx.function(until)
    if scope is not ctx.function(since) or ctx.loops(since) != ctx.loops(until):
        return False
    names = {inner.id for inner in walk(node) if isinstance(inner, ast.Name)}
    lines = range(since.lineno, until.lineno + 1)
    around = ctx.tree if scope is None else scope
    return not any(
        isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.id in names and inner.lineno in lines
        for inner in walk(around)
    )
