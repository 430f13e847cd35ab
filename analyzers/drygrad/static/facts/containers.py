"""Sizes as Python values, and literals inside nested lists."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.facts.values import UNKNOWN, Arguments, Constant, Dim, Number, Sequence, Shape, Value, element_of


def size(dim: Dim) -> Value:
    """Return one size as a number."""
    return Constant(dim) if isinstance(dim, int) else Number(symbol=dim)


def sizes(shape: Shape | None) -> Value:
    """Return ``x.shape``."""
    return Sequence("tuple", None, Number()) if shape is None else Sequence("tuple", tuple(size(d) for d in shape))


def nested(shape: Shape | None) -> Value:
    """Return ``x.tolist()`` of a tensor that has dimensions, or may have: lists of numbers."""
    if shape is None:
        return UNKNOWN
    inner: Value = Number()
    for _ in shape:
        inner = Sequence("list", None, inner)
    return inner


def size_at(shape: Shape | None, arguments: Arguments) -> Value:
    """Return ``x.size(dim)``."""
    dim = arguments.get("dim", 0)
    if shape is None or not isinstance(dim, Constant) or not isinstance(dim.value, int):
        return Number()
    return size(shape[dim.value]) if -len(shape) <= dim.value < len(shape) else UNKNOWN


def shape_owner(node: ast.expr) -> str | None:
    """Return the name ``x`` where an expression is ``x.shape`` or ``x.size()``."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="shape"):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[], keywords=[]):
            return name
        case _:
            return None


def element_types(value: Value) -> Iterator[type | None]:
    """Yield the types of the literals in nested lists; None for what is no literal."""
    if isinstance(value, Sequence):
        for item in value.items if value.items is not None else (element_of(value),):
            yield from element_types(item)
    else:
        yield type(value.value) if isinstance(value, Constant) else None
