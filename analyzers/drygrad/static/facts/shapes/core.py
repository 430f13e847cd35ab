"""Sizes and shapes: what follows from them, whatever operation asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from drygrad.static.facts.values import Dim, Shape


class Mismatch(Exception):
    """Shapes that cannot meet: torch raises here, whatever the unknown sizes are."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Unknown(Exception):
    """Not enough is known to tell the shape; never leaves the package."""


class Outputs(tuple["Result", ...]):
    """The shapes of several outputs, told apart by its type from a shape; an output may hold several itself."""

    __slots__ = ()


Result: TypeAlias = Shape | Outputs | None


def words(text: str) -> tuple[str, ...]:
    """Split a table of names."""
    return tuple(text.split())


def differ(first: Dim, second: Dim) -> bool:
    """Say whether two sizes are unequal for certain."""
    return isinstance(first, int) and isinstance(second, int) and first != second


def may_equal(first: Shape, second: Shape) -> bool:
    """Say whether two shapes may be the same."""
    return len(first) == len(second) and not any(map(differ, first, second))


def meet(first: Dim, second: Dim) -> Dim:
    """Return what is known of a size that two shapes share."""
    if isinstance(first, int) or second is None:
        return first
    return second if isinstance(second, int) or first is None else first


def size_text(size: Dim) -> str:
    """Write a size for a person: a symbol by the name that the text gives it."""
    return "?" if size is None else str(size).partition("@")[0]


def shape_text(shape: Shape) -> str:
    """Write a shape for a person, as Python writes tuples."""
    return f"({', '.join(map(size_text, shape))}{',' if len(shape) == 1 else ''})"


def product(sizes: Iterable[Dim]) -> Dim:
    """Multiply sizes; a product with a symbol is unknown, except by one."""
    number, symbol = 1, None
    for size in sizes:
        if isinstance(size, int):
            number *= size
        elif size is None or symbol is not None:
            return None
        else:
            symbol = size
    if symbol is None:
        return number
    return symbol if number == 1 else None


def numel(shape: Shape | None) -> Dim:
    """Return the number of elements."""
    return None if shape is None else product(shape)


def uncommon(first: Shape, second: Shape) -> tuple[Shape, Shape]:
    """Return what is left of two shapes when the symbols that both have are cancelled."""
    common = Counter(s for s in first if isinstance(s, str)) & Counter(s for s in second if isinstance(s, str))
    return _without(first, common), _without(second, common)


def _without(shape: Shape, symbols: Counter[str]) -> Shape:
    left = symbols.copy()
    kept: list[Dim] = []
    for size in shape:
        if isinstance(size, str) and left[size] > 0:
            left[size] -= 1
        else:
            kept.append(size)
    return tuple(kept)


def dimension(index: int, rank: int) -> int:
    """Return a dimension's index, counted from the front; a scalar counts as one dimension, as torch has it."""
    bound = max(rank, 1)
    if not -bound <= index < bound:
        raise Mismatch("dim", f"dimension {index} is asked for, the tensor has {rank} dimensions")
    return index % bound


def axis_of(shape: Shape, index: int) -> int:
    """Return a dimension's index in a shape that has one; what torch makes of a scalar's is not told."""
    dim = dimension(index, len(shape))
    if not shape:
        raise Unknown
    return dim


def replaced(shape: Shape, dim: int, *sizes: Dim) -> Shape:
    """Return the shape with these sizes in the place of one."""
    return (*shape[:dim], *sizes, *shape[dim + 1 :])


def broadcast(*shapes: Shape | None) -> Shape | None:
    """Return the shape that shapes broadcast to."""
    result: Shape = ()
    for shape in shapes:
        if shape is None:
            return None
        if shape != result:
            result = _broadcast_two(result, shape)
    return result


def _broadcast_two(first: Shape, second: Shape) -> Shape:
    rank = max(len(first), len(second))
    left: Shape = (1,) * (rank - len(first)) + first
    right: Shape = (1,) * (rank - len(second)) + second
    if any(differ(a, b) and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
        raise Mismatch("broadcast", f"the shapes {shape_text(first)} and {shape_text(second)} do not broadcast")
    return tuple(_broadcast_size(a, b) for a, b in zip(left, right, strict=True))


def _broadcast_size(first: Dim, second: Dim) -> Dim:
    if second in (first, 1):
        return first
    if first == 1:
        return second
    # A number other than one is the result: the unknown size can only be it, or one.
    return next((size for size in (first, second) if isinstance(size, int)), None)
