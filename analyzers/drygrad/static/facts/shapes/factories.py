"""Calls that make a tensor from sizes or literals."""

from __future__ import annotations

import math

from drygrad.static.facts.shapes.core import Unknown, broadcast, words
from drygrad.static.facts.shapes.reading import Handler, Reader, is_size, items_of, shape_of, size_of_value
from drygrad.static.facts.values import Constant, Number, Sequence, Shape, Tensor, Value


def _from_sizes(reader: Reader) -> Shape:
    """Sizes one by one or in a sequence; a method's receiver comes before them."""
    return reader.sizes(1 if reader.call.form == "method" else 0, "size")


def _filled(reader: Reader) -> Shape:
    """Sizes in a sequence, the first among the arguments."""
    value = reader.call.keyword_values.get("size")
    if value is None:
        value = next((value for value in reader.call.values if isinstance(value, Sequence)), None)
    if value is None:
        raise Unknown
    return tuple(map(size_of_value, items_of(value)))


def _normal(reader: Reader) -> Shape | None:
    means = [value for value in (reader.operand(0, "mean"), reader.given("std")) if value is not None]
    if any(isinstance(value, Tensor) for value in means):
        return broadcast(*(shape_of(value) for value in means if isinstance(value, Tensor)))
    return _filled(reader)


def _number(value: Value | None, default: float | None = None) -> float:
    if value is None and default is not None:
        return default
    if isinstance(value, Constant) and isinstance(value.value, (int, float)):
        return value.value
    raise Unknown


def _arange(reader: Reader) -> Shape:
    values = [*reader.call.values]
    values += [v for name in ("start", "end", "step") if (v := reader.call.keyword_values.get(name)) is not None]
    if len(values) == 1 and isinstance(values[0], Number):
        return (values[0].symbol,)
    if not all(isinstance(value, Constant) for value in values):
        return (None,)
    numbers = [_number(value) for value in values]
    start, end, step = {1: (0, *numbers, 1), 2: (*numbers, 1), 3: (*numbers,)}.get(len(numbers), (0, 0, 0))
    if step == 0 or (end - start) / step < 0:
        raise Unknown
    return (math.ceil((end - start) / step),)


def _spaced(reader: Reader) -> Shape:
    steps = size_of_value(reader.operand(2, "steps"))
    if any(isinstance(value, Tensor) for value in reader.call.values):
        raise Unknown
    return (steps,)


def _eye(reader: Reader) -> Shape:
    rows = size_of_value(reader.operand(0, "n"))
    return (rows, rows if reader.given("m") is None else reader.size("m"))


def _permutation(reader: Reader) -> Shape:
    return (size_of_value(reader.operand(0, "n")),)


def _multinomial(reader: Reader) -> Shape:
    return (*reader.shape()[:-1], size_of_value(reader.operand(1, "num_samples")))


def literal_shape(value: Value) -> Shape:
    """Return the shape of a tensor made of nested lists."""
    if is_size(value) or (isinstance(value, Constant) and isinstance(value.value, (bool, int, float, complex))):
        return ()
    if isinstance(value, Tensor):
        return shape_of(value)
    items = items_of(value)
    if not items:
        return (0,)
    inner = {literal_shape(item) for item in items}
    if len(inner) > 1:
        raise Unknown
    return (len(items), *inner.pop())


def _literal(reader: Reader) -> Shape:
    return literal_shape(reader.operand(1 if reader.call.form == "method" else 0, "data"))


SIZED = words("zeros ones rand randn empty new_zeros new_ones new_empty")
FILLED = words("full new_full randint")
SPACED = words("linspace logspace")
WINDOWS = words("randperm hann_window hamming_window blackman_window bartlett_window")

OPERATIONS: dict[str, Handler] = {
    **dict.fromkeys(SIZED, _from_sizes),
    **dict.fromkeys(FILLED, _filled),
    **dict.fromkeys(SPACED, _spaced),
    **dict.fromkeys(WINDOWS, _permutation),
    "normal": _normal,
    "arange": _arange,
    "multinomial": _multinomial,
    "eye": _eye,
    **dict.fromkeys(("tensor", "as_tensor", "new_tensor", "scalar_tensor"), _literal),
}
