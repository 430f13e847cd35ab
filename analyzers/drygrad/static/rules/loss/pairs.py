"""The shapes of a loss's input and target, and how to make them one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.model import Fix
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.shapes import numel
from drygrad.static.facts.shapes.core import may_equal
from drygrad.static.facts.values import Shape, TorchCall

_EXPLICIT = frozenset("unsqueeze getitem view reshape expand mean sum amax amin".split())
"""Origins that show that a dimension of one element was made to broadcast."""


@dataclass(frozen=True)
class Sized:
    """An expression whose shape is known."""

    expression: ast.expr
    shape: Shape


def pair(ctx: Context, call: TorchCall) -> tuple[Sized, Sized] | None:
    """Return a loss's input and target, where the shapes of both are known."""
    first, second = (sized(ctx, call.operand(name)) for name in ("input", "target"))
    return (first, second) if first is not None and second is not None else None


def sized(ctx: Context, expression: ast.expr | None) -> Sized | None:
    """Return an expression with its shape, where that is known."""
    tensor = ctx.tensor(expression)
    if expression is None or tensor is None or tensor.shape is None:
        return None
    return Sized(expression, tensor.shape)


def aligned(ctx: Context, given: Sized, target: Sized) -> Iterator[Fix | None]:
    """Yield the fixes that give input and target one shape: of the target first."""
    if (dim := extra_dimension(given.shape, target.shape)) is not None:
        yield with_suffix(ctx, target.expression, f".unsqueeze({dim})")
        yield with_suffix(ctx, given.expression, f".squeeze({dim})")
    elif (dim := extra_dimension(target.shape, given.shape)) is not None:
        yield with_suffix(ctx, target.expression, f".squeeze({dim})")
        yield with_suffix(ctx, given.expression, f".unsqueeze({dim})")
    elif isinstance(given.expression, ast.Name) and numel(given.shape) == numel(target.shape) is not None:
        yield with_suffix(ctx, target.expression, f".view_as({given.expression.id})")


def extra_dimension(longer: Shape, shorter: Shape) -> int | None:
    """Return the last dimension of one element that one shape has and the other, else the same, has not."""
    if len(longer) != len(shorter) + 1:
        return None
    for dim in reversed(range(len(longer))):
        if longer[dim] == 1 and may_equal(longer[:dim] + longer[dim + 1 :], shorter):
            return dim
    return None


def with_suffix(ctx: Context, expression: ast.expr, suffix: str) -> Fix | None:
    """Call a method of an expression's value."""
    text = as_operand(ctx, expression)
    return ctx.fix(f"Use `{' '.join(text.split())}{suffix}`", ctx.replace(expression, text + suffix))


def crosses(first: Shape, second: Shape) -> bool:
    """Say whether broadcasting expands both shapes, each in another dimension: all pairs are made."""
    rank = max(len(first), len(second))
    left, right = ((1,) * (rank - len(shape)) + shape for shape in (first, second))
    sizes = list(zip(left, right, strict=True))
    return any(a == 1 != b for a, b in sizes) and any(b == 1 != a for a, b in sizes)


def is_accident(ctx: Context, given: Sized, target: Sized) -> bool:
    """Say whether shapes (N, 1) and (N,) meet, of which none was made to broadcast."""
    tensors = [ctx.tensor(each.expression) for each in (given, target)]
    explicit = any(tensor is not None and tensor.made_by(*_EXPLICIT) for tensor in tensors)
    shapes = sorted((given.shape, target.shape), key=len)
    if explicit or [len(shape) for shape in shapes] != [1, 2] or not crosses(*shapes):
        return False
    return may_equal(shapes[0], shapes[1][:1]) or may_equal(shapes[0], shapes[1][1:])
