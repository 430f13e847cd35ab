"""Casting a loss's target."""

from __future__ import annotations

import ast

from drygrad.model import Fix
from drygrad.static.context import Context
from drygrad.static.facts.operations import CASTS
from drygrad.static.rules.loss.activations import rename
from drygrad.static.rules.loss.pairs import with_suffix


def cast(ctx: Context, expression: ast.expr, method: str) -> Fix | None:
    """Cast a tensor with a method, in the place of the cast that it has."""
    match expression:
        case ast.Call(func=ast.Attribute(attr=attr), args=[], keywords=[]) if attr in CASTS:
            return ctx.fix(f"Use `.{method}()` instead of `.{attr}()`", rename(ctx, expression, method))
        case _:
            return with_suffix(ctx, expression, f".{method}()")
