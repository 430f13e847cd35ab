"""Adding an argument to a call."""

from __future__ import annotations

import ast

from drygrad.model import Edit, Position, Span
from drygrad.static.context import Context


def with_keyword(ctx: Context, node: ast.expr | None, name: str, value: str) -> Edit | None:
    """Give a call a keyword argument, behind the others or in the place of its present value."""
    if not isinstance(node, ast.Call):
        return None
    for keyword in node.keywords:
        if keyword.arg == name:
            return ctx.replace(keyword.value, value)
    given = sorted((*node.args, *(k.value for k in node.keywords)), key=lambda a: (a.lineno, a.col_offset))
    if given:
        return ctx.insert_after(given[-1], f", {name}={value}")
    end = ctx.source.end(node)
    before_parenthesis = Position(end.line, end.column - 1)
    return Edit(Span(before_parenthesis, before_parenthesis), f"{name}={value}")
