"""Arithmetic on what may be numbers, arrays or tensors: the range is known where the type is not."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from drygrad.static.facts import ranges
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.interval import NONNEGATIVE, UNIT, ZERO, Range
from drygrad.static.facts.operations import ALIASES
from drygrad.static.facts.values import (
    UNKNOWN,
    Constant,
    Number,
    Origin,
    Quantity,
    Tensor,
    TorchCall,
    Value,
    is_unknown,
)

_OF_ARRAYS = ranges.COMPARISONS | frozenset(
    "sum mean std var abs max min amax amin prod clamp pow add sub mul div square sqrt view reshape squeeze "
    "transpose flatten clone to detach float double cumsum ravel t item any all".split()
)
"""Methods of arrays of every library, as far as they carry ranges."""
_COPIES = {"copy": "clone", "astype": "to"}


def computed(node: ast.expr, operation: str, values: tuple[Value, ...], call: TorchCall | None = None) -> Value:
    """Return the result of an operation on numbers, of which some may be arrays or tensors."""
    known = ranges.range_of_result(operation, values, call)
    if known is None and not any(isinstance(value, Quantity) for value in values):
        return UNKNOWN
    return Quantity(known, Origin(operation, node, values, call), node)


def operator(node: ast.expr, operation: str, expressions: tuple[ast.expr, ...], values: tuple[Value, ...]) -> Value:
    """Return the value of an operator on what is no tensor for certain."""
    if operation in ranges.COMPARISONS:
        return _compared(node, operation, values)
    known = of_same_text(operation, expressions, values)
    if known is not None:
        return Quantity(known, Origin(operation, node, values), node)
    return computed(node, operation, values)


def _compared(node: ast.expr, operation: str, values: tuple[Value, ...]) -> Value:
    if not any(isinstance(value, (Quantity, Tensor)) for value in values):
        return UNKNOWN
    return Quantity(UNIT, Origin(operation, node, values), node)


def of_same_text(operation: str, expressions: tuple[ast.expr, ...], values: tuple[Value, ...]) -> Range | None:
    """Return the range of ``a - a`` and ``a * a``: the same name, the same content."""
    if operation not in ("sub", "mul") or len(expressions) < 2 or values[0] != values[1]:
        return None
    name = dotted_text(expressions[0])
    if name is None or name != dotted_text(expressions[1]):
        return None
    return ZERO if operation == "sub" else ranges.range_of_result("square", values[:1], None) or NONNEGATIVE


def method(node: ast.Call, receiver: Value, name: str, given: tuple[Value, ...], call: TorchCall) -> Value:
    """Return the value of a method that arrays of any library have."""
    operation = _COPIES.get(name, ALIASES.get(name, name))
    if not isinstance(receiver, Quantity) or operation not in _OF_ARRAYS:
        return UNKNOWN
    return computed(node, operation, (receiver, *given), call)


def as_tensor(value: Value) -> Value:
    """Return what is known of a value that turns out to be a tensor."""
    if isinstance(value, Quantity):
        return Tensor(device=value.device, range=value.range, origin=value.origin, storage=value.storage)
    return Tensor() if value is UNKNOWN else value


def moved(node: ast.Call, receiver: Value, device: str | None) -> Value:
    """Return what ``.to(device)`` and ``.cuda()`` make of an unknown value: a tensor, a module, a batch."""
    known = receiver if isinstance(receiver, Quantity) else Quantity()
    return Quantity(known.range, Origin("to", node, (receiver,)), node, device) if device is not None else UNKNOWN


def parameter(node: ast.arg) -> Quantity:
    """Return what an argument is of which nothing is known, but that it is the same wherever it is named."""
    return Quantity(storage=node)


def number(value: Value, origin: Origin | None, cut: ast.expr | None) -> Number:
    """Return a number taken out of a tensor or an array."""
    return Number(origin=origin, cut=cut, range=ranges.range_of(value))


def of_builtin(node: ast.Call, name: str, given: Iterable[Value]) -> Value:
    """Return what ``abs``, ``max`` and ``min`` of Python give."""
    values = tuple(given)
    if name == "abs":
        return computed(node, "abs", values) if values and is_unknown(values[0]) else UNKNOWN
    if len(values) != 2 or not all(isinstance(v, (Constant, Number, Quantity)) for v in values):
        return UNKNOWN
    known = ranges.range_of_result("maximum" if name == "max" else "minimum", _bound_last(values), None)
    if any(isinstance(value, Quantity) for value in values):
        return Quantity(known, Origin(name, node, values), node)
    return Number(range=known)


def _bound_last(values: tuple[Value, ...]) -> tuple[Value, ...]:
    return values[::-1] if isinstance(values[0], Constant) else values
