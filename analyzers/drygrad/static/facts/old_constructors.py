"""What torch's oldest constructors make: ``torch.Tensor``, ``torch.FloatTensor``, ``Variable``."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts import quantities
from drygrad.static.facts.transfer import tensors_in
from drygrad.static.facts.values import UNKNOWN, Arguments, Constant, Dim, Origin, Sequence, Shape, Tensor, Value


def typed_tensor(node: ast.Call, arguments: Arguments, dtype: str | None, device: str | None) -> Tensor:
    """Return what ``torch.Tensor(...)``, ``torch.FloatTensor(...)`` and the like make."""
    origin = Origin("tensor", node, arguments.positional)
    shape = _legacy_shape(arguments.positional)
    return Tensor(shape, dtype, device, False, True, origin, node, cut=copied(node, arguments.positional))


def _legacy_shape(given: tuple[Value, ...]) -> Shape | None:
    """Return the shape that an old constructor gives its tensor: of sizes, or of numbers in nested lists."""
    if given and all(isinstance(value, Constant) and type(value.value) is int for value in given):
        return tuple(value.value for value in given if isinstance(value, Constant) and isinstance(value.value, int))
    shape: list[Dim] = []
    inner = given[0] if len(given) == 1 else UNKNOWN
    while isinstance(inner, Sequence) and inner.kind == "list" and inner.items:
        shape.append(len(inner.items))
        inner = inner.items[0]
    return tuple(shape) if shape and isinstance(inner, Constant) else None


def variable(node: ast.Call, arguments: Arguments) -> Value:
    """Return what the old wrapper gives: the tensor itself, apart from the graph that made it."""
    data = quantities.as_tensor(arguments.get("data", 0) or UNKNOWN)
    if not isinstance(data, Tensor):
        return Tensor()
    recorded = flag(arguments.get("requires_grad", 1), default=False)
    cut = node if data.requires_grad else data.cut
    return replace(data, requires_grad=recorded, leaf=True, cut=None if recorded else cut)


def copied(node: ast.expr, values: tuple[Value, ...]) -> ast.expr | None:
    """``torch.tensor(loss)`` and ``torch.tensor([a, b])`` copy the numbers and leave the graph behind."""
    return node if any(tensor.requires_grad for tensor in tensors_in(values[:1])) else None


def flag(given: Value | None, *, default: bool) -> bool | None:
    """Return what a boolean argument says; None where that is unknown."""
    if given is None:
        return default
    return given.value is True if isinstance(given, Constant) else None
