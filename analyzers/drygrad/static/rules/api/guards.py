"""Where code asks which torch it has before it uses a name."""

from __future__ import annotations

import ast

from drygrad.static.context import Context

_GUARDS = ("hasattr", "version", "torch_", "type_checking")


def is_guarded(node: ast.AST, ctx: Context) -> bool:
    """Say whether a node is reached only in some versions of torch, or where the error is handled."""
    for around in ctx.ancestors(node):
        if isinstance(around, ast.Try):
            return True
        if isinstance(around, (ast.If, ast.IfExp)) and _asks(around.test, ctx):
            return True
        if isinstance(around, ast.BoolOp) and any(_asks(value, ctx) for value in around.values):
            return True
    return False


def _asks(test: ast.expr, ctx: Context) -> bool:
    text = ctx.source_of(test).lower()
    return any(word in text for word in _GUARDS)
