"""The autocast blocks around a node."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context
from drygrad.static.facts.contexts import AUTOCAST
from drygrad.static.facts.values import Constant, Object
from drygrad.static.steps import Block


def autocast_blocks(ctx: Context, node: ast.AST) -> Iterator[tuple[Block, Object]]:
    """Yield the with blocks around a node that switch autocast, in its function, the innermost first."""
    for ancestor in ctx.ancestors(node):
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return
        if isinstance(ancestor, (ast.With, ast.AsyncWith)):
            for item in ancestor.items:
                value = ctx.value(item.context_expr)
                if isinstance(value, Object) and value.type in AUTOCAST:
                    yield ancestor, value


def active_autocast(ctx: Context, node: ast.stmt | ast.expr) -> tuple[Block, Object] | None:
    """Return the autocast block that a node surely runs under."""
    if ctx.autocast(ctx.statement(node)) in ("off", None):
        return None
    return next(autocast_blocks(ctx, node), None)


def device_of(autocast: Object) -> str | None:
    """Return the device type that an autocast is for; None where it is not written down."""
    if autocast.type != "torch.autocast":
        return "cuda" if autocast.type.startswith("torch.cuda.") else "cpu"
    given = autocast.arguments.get("device_type", 0)
    return given.value if isinstance(given, Constant) and isinstance(given.value, str) else None
