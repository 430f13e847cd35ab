"""Divisions, however they are written."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from drygrad.static.context import Context


@dataclass(frozen=True, slots=True)
class Division:
    """``numerator / denominator``; ``is_call`` where the two are arguments, not operands of an operator."""

    node: ast.expr | ast.stmt
    numerator: ast.expr
    denominator: ast.expr
    is_call: bool = False


def division_at(node: ast.BinOp | ast.AugAssign | ast.Call, ctx: Context) -> Division | None:
    """Return the true division that a node is: ``a / b``, ``a /= b``, ``torch.div(a, b)``, ``a.div_(b)``."""
    match node:
        case ast.BinOp(op=ast.Div()):
            return Division(node, node.left, node.right)
        case ast.AugAssign(op=ast.Div()):
            return Division(node, node.target, node.value)
        case ast.Call():
            call = ctx.call(node)
            if call is None or call.operation != "div" or "rounding_mode" in call.keywords:
                return None
            numerator, denominator = call.operand("input"), call.operand("other")
            return Division(node, numerator, denominator, True) if numerator and denominator else None
        case _:
            return None
