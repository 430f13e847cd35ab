"""Subscripts of tensors."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from drygrad.static.facts.shapes.core import Mismatch, Unknown, broadcast, differ, shape_text
from drygrad.static.facts.shapes.reading import is_size, items_of, size_of_value
from drygrad.static.facts.values import NONE, Constant, Dim, Number, Sequence, Shape, Tensor, Value

MASKS = ("bool", "uint8")


@dataclass(frozen=True, slots=True)
class Slice(Value):
    """A slice among the items of a subscript; what is absent is the constant None."""

    start: Value = NONE
    stop: Value = NONE
    step: Value = NONE

    def length(self, size: Dim) -> Dim:
        """Return how many elements of a dimension the slice takes."""
        bounds = (self.start, self.stop, self.step)
        if self.start in (NONE, Constant(0)) and self.stop == NONE and self.step in (NONE, Constant(1)):
            return size
        limits = [None if bound == NONE else size_of_value(bound) for bound in bounds]
        clear = all(bound == NONE or isinstance(limit, int) for bound, limit in zip(bounds, limits, strict=True))
        if not isinstance(size, int) or not clear or limits[2] == 0:
            return None
        return len(range(*slice(*limits).indices(size)))


def subscript(shape: Shape | None, index: tuple[Value, ...]) -> Shape | None:
    """Return the shape of a subscripted tensor: the items are numbers, Slice, None, Ellipsis, tensors, lists."""
    if shape is None:
        return None
    try:
        return _Subscript(shape).apply(index)
    except Unknown:
        return None


def index_shape(shape: Shape | None, node: ast.expr, value_of: Callable[[ast.expr], Value]) -> Shape | None:
    """Return the shape of a tensor subscripted by an expression (the subscript, or what stands in its brackets)."""
    index = node.slice if isinstance(node, ast.Subscript) else node
    items = index.elts if isinstance(index, ast.Tuple) else [index]
    if shape is None or any(isinstance(item, ast.Starred) for item in items):
        return None
    values = tuple(_item(item, value_of) for item in items)
    if len(values) == 1 and isinstance(values[0], Sequence) and values[0].kind == "tuple":
        return subscript(shape, values[0].items) if values[0].items is not None else None
    return subscript(shape, values)


def _item(node: ast.expr, value_of: Callable[[ast.expr], Value]) -> Value:
    if not isinstance(node, ast.Slice):
        return value_of(node)
    return Slice(*(NONE if part is None else value_of(part) for part in (node.lower, node.upper, node.step)))


class _Subscript:
    """Applies items one by one: numbers, slices and None at once, tensors together at the end, as torch does."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.position = 0
        self.result: list[Dim] = []
        self.tensors: list[tuple[int, Shape]] = []

    def apply(self, index: tuple[Value, ...]) -> Shape:
        """Return the shape of the subscripted tensor."""
        used = sum(self._dimensions(item) for item in index)
        if used > len(self.shape):
            raise Mismatch("index", self._too_many(used))
        for item in index:
            self._apply_item(item, len(self.shape) - used)
        self.result += self.shape[self.position :]
        return self._with_tensors() if self.tensors else tuple(self.result)

    def _too_many(self, used: int) -> str:
        if not self.shape:
            return "the tensor has no dimensions; `.item()` returns its value"
        indices = "1 index" if used == 1 else f"{used} indices"
        return f"{indices} for the shape {shape_text(self.shape)}, which has {len(self.shape)}"

    def _dimensions(self, item: Value) -> int:
        """Return how many dimensions of the tensor an item uses up."""
        if item in (NONE, Constant(...)):
            return 0
        if isinstance(item, Tensor):
            if item.shape is None or item.dtype is None:
                raise Unknown
            return len(item.shape) if item.dtype in MASKS else 1
        if isinstance(item, (Slice, Sequence)) or is_size(item):
            return 1
        raise Unknown

    def _apply_item(self, item: Value, hidden: int) -> None:
        if item == NONE:
            self.result.append(1)
        elif item == Constant(...):
            self.result += self.shape[self.position : self.position + hidden]
            self.position += hidden
        elif isinstance(item, Slice):
            self.result.append(item.length(self._next()))
        elif isinstance(item, (Constant, Number)):
            self._select(item)
        else:
            self._look_up(item)

    def _next(self) -> Dim:
        self.position += 1
        return self.shape[self.position - 1]

    def _select(self, item: Value) -> None:
        index, size = size_of_value(item), self._next()
        if isinstance(index, int) and isinstance(size, int) and not -size <= index < size:
            raise Mismatch("index", f"index {index} is outside a dimension of {size}")

    def _look_up(self, item: Value) -> None:
        if isinstance(item, Sequence):
            items = items_of(item)
            if not items or not all(is_size(element) for element in items):
                raise Unknown
            self._next()
            self.tensors.append((len(self.result), (len(items),)))
        elif isinstance(item, Tensor) and item.shape is not None:
            self._look_up_tensor(item, item.shape)

    def _look_up_tensor(self, item: Tensor, shape: Shape) -> None:
        if item.dtype not in MASKS:
            self._next()
            if shape:
                self.tensors.append((len(self.result), shape))
            return
        if not shape:
            raise Unknown
        masked = self.shape[self.position : self.position + len(shape)]
        if any(map(differ, masked, shape)):
            raise Mismatch("index", f"the mask {shape_text(shape)} does not fit {shape_text(masked)}")
        self.position += len(shape)
        self.tensors.append((len(self.result), (None,)))

    def _with_tensors(self) -> Shape:
        """Put what the index tensors look up in the place of the first, or first where others stand between them."""
        looked_up = broadcast(*(shape for _, shape in self.tensors)) or ()
        places = [place for place, _ in self.tensors]
        start = places[0] if places[0] == places[-1] else 0
        return (*self.result[:start], *looked_up, *self.result[start:])
