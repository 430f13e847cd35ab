"""The terms that a loss is the sum of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context
from drygrad.static.facts.values import Number, Tensor, Value
from drygrad.static.loops import Backward, backwards_in

_SUMS = frozenset({"add", "sub", "stack", "cat"})
_SCALES = frozenset({"mul", "div", "neg", "mean", "sum", "to", "float", "squeeze", "view", "reshape"})


def differentiated(ctx: Context) -> Iterator[tuple[ast.Call, Value]]:
    """Yield the backward calls of a file with what they are called on."""
    for backward in ctx.derived(_backwards):
        for root in backward.roots:
            yield backward.node, ctx.value(root)


def _backwards(ctx: Context) -> tuple[Backward, ...]:
    scopes = (ctx.tree, *ctx.nodes(ast.FunctionDef, ast.AsyncFunctionDef))
    return tuple(backward for scope in scopes for backward in backwards_in(scope, ctx))


def terms_of(value: Value) -> Iterator[Tensor | Number]:
    """Yield the values that a loss adds up, constant factors and means of each left aside."""
    waiting, seen = [value], set[int]()
    while waiting:
        term = waiting.pop()
        if isinstance(term, Number):
            yield term
        origin = term.origin if isinstance(term, Tensor) else None
        if not isinstance(term, Tensor) or origin is None or id(origin.node) in seen:
            continue
        seen.add(id(origin.node))
        inner = [operand for operand in origin.operands if isinstance(operand, Tensor)]
        if origin.operation in _SUMS:
            waiting.extend(operand for operand in origin.operands if isinstance(operand, (Tensor, Number)))
        elif origin.operation in _SCALES and len(inner) == 1:
            waiting.extend(inner)
        yield term
