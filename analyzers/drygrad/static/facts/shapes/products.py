"""Products of matrices."""

from __future__ import annotations

import re

from drygrad.static.facts.shapes.core import Mismatch, Unknown, broadcast, differ, meet, shape_text, size_text
from drygrad.static.facts.shapes.reading import Handler, Reader, items_of, shape_of
from drygrad.static.facts.values import Constant, Dim, Sequence, Shape, Value


def matmul(left: Shape | None, right: Shape | None) -> Shape | None:
    """Return the shape of ``left @ right``."""
    if left is None or right is None:
        return None
    if not left or not right:
        raise Mismatch("matmul", "a scalar has no matrix product: both sides need at least 1 dimension")
    if differ(left[-1], right[-2:][0]):
        raise Mismatch(
            "matmul",
            f"the left side has {size_text(left[-1])} columns, the right side {size_text(right[-2:][0])} rows: "
            f"{shape_text(left)} @ {shape_text(right)}",
        )
    batch = broadcast(left[:-2], right[:-2]) or ()
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _matmul(reader: Reader) -> Shape | None:
    return matmul(reader.shape(), reader.shape(1, "other", "tensor2"))


def check_rank(shape: Shape, rank: int, kind: str, name: str) -> None:
    """Raise where an operand has another number of dimensions than its operation takes."""
    if len(shape) != rank:
        raise Mismatch(kind, f"{name} expects {rank} dimensions, but the operand {shape_text(shape)} has {len(shape)}")


def _ranked(left: int, right: int, *names: str) -> Handler:
    """Make the handler of a product whose operands must have these numbers of dimensions."""

    def handler(reader: Reader) -> Shape | None:
        first, second = reader.shape(), reader.shape(1, *names)
        name = reader.call.operation
        check_rank(first, left, "matmul", name)
        check_rank(second, right, "matmul", name)
        if left == 3 and differ(first[0], second[0]):
            raise Mismatch("matmul", f"{name} needs equal batches, not {first[0]} and {second[0]}")
        result = matmul(first, second)
        return (meet(first[0], second[0]), *result[1:]) if result and left == 3 else result

    return handler


def _outer(reader: Reader) -> Shape:
    first, second = reader.shape(), reader.shape(1, "vec2", "other")
    check_rank(first, 1, "matmul", "outer")
    check_rank(second, 1, "matmul", "outer")
    return (*first, *second)


def _inner(reader: Reader) -> Shape:
    first, second = reader.shape(), reader.shape(1, "other")
    if not first or not second:
        return (*first, *second)
    if differ(first[-1], second[-1]):
        raise Mismatch("matmul", f"the last dimensions have {first[-1]} and {second[-1]} features")
    return (*first[:-1], *second[:-1])


def _added(rank: int, *names: str) -> Handler:
    """Make the handler of an operation that adds a product to its first operand."""

    def handler(reader: Reader) -> Shape | None:
        first, second, third = (reader.shape(index, name) for index, name in enumerate(("input", *names)))
        name = reader.call.operation
        check_rank(second, rank, "matmul", name)
        result = matmul(second, third)
        grown = broadcast(first, result)
        if result is not None and grown is not None and len(grown) > len(result):
            raise Mismatch("broadcast", f"{shape_text(first)} cannot be added to a product of {shape_text(result)}")
        return result

    return handler


def _cross(reader: Reader) -> Shape | None:
    return broadcast(reader.shape(), reader.shape(1, "other"))


def _cdist(reader: Reader) -> Shape | None:
    first, second = reader.shape(0, "x1"), reader.shape(1, "x2")
    if len(first) < 2 or len(second) < 2:
        raise Mismatch("matmul", f"cdist needs at least 2 dimensions: {shape_text(first)}, {shape_text(second)}")
    if differ(first[-1], second[-1]):
        raise Mismatch("matmul", f"cdist needs points of equal size, not {first[-1]} and {second[-1]}")
    return (*(broadcast(first[:-2], second[:-2]) or ()), first[-2], second[-2])


def _einsum(reader: Reader) -> Shape | None:
    if not reader.call.values:
        raise Unknown
    equation, *values = reader.call.values
    if len(values) == 1 and isinstance(values[0], Sequence):
        values = list(items_of(values[0]))
    if not isinstance(equation, Constant) or not isinstance(equation.value, str):
        raise Unknown
    text = equation.value.replace(" ", "")
    if not re.fullmatch(r"[A-Za-z,]*(->[A-Za-z]*)?", text):
        raise Unknown
    inputs, arrow, output = text.partition("->")
    sizes = _labels(inputs.split(","), values)
    if not arrow:
        output = "".join(sorted(label for label in sizes if inputs.count(label) == 1))
    if any(label not in sizes for label in output):
        raise Unknown
    return tuple(sizes[label] for label in output)


def _labels(terms: list[str], values: list[Value]) -> dict[str, Dim]:
    """Return the size of each label of an einsum equation."""
    if len(terms) != len(values):
        raise Unknown
    sizes: dict[str, Dim] = {}
    for term, value in zip(terms, values, strict=True):
        shape = shape_of(value)
        if len(term) != len(shape):
            raise Mismatch("einsum", f"'{term}' names {len(term)} dimensions, the operand has {len(shape)}")
        for label, size in zip(term, shape, strict=True):
            sizes[label] = _shared(label, sizes[label], size) if label in sizes else size
    return sizes


def _shared(label: str, first: Dim, second: Dim) -> Dim:
    if differ(first, second) and 1 not in (first, second):
        raise Mismatch("einsum", f"'{label}' has {first} elements in one operand and {second} in another")
    return (broadcast((first,), (second,)) or (None,))[0]


def _tensordot(reader: Reader) -> Shape:
    first, second, count = reader.shape(0, "a"), reader.shape(1, "b"), reader.integer("dims", 2)
    if not 0 <= count <= min(len(first), len(second)):
        raise Unknown
    return (*first[: len(first) - count], *second[count:])


def _square(reader: Reader) -> Shape:
    """Return the shape of square matrices, which a decomposition keeps."""
    shape = reader.shape(0, "A", "input")
    if len(shape) < 2 or differ(*shape[-2:]):
        raise Mismatch("matmul", f"square matrices are required, but the operand is {shape_text(shape)}")
    return shape


def _determinant(reader: Reader) -> Shape:
    return _square(reader)[:-2]


OPERATIONS: dict[str, Handler] = {
    **dict.fromkeys(("inv", "inverse", "matrix_power", "matrix_exp", "cholesky"), _square),
    "det": _determinant,
    "matmul": _matmul,
    "mm": _ranked(2, 2, "mat2"),
    "bmm": _ranked(3, 3, "mat2"),
    "mv": _ranked(2, 1, "vec"),
    **dict.fromkeys(("dot", "vdot"), _ranked(1, 1, "tensor", "other")),
    **dict.fromkeys(("outer", "ger"), _outer),
    "inner": _inner,
    "addmm": _added(2, "mat1", "mat2"),
    "addmv": _added(2, "mat", "vec"),
    "baddbmm": _added(3, "batch1", "batch2"),
    "cross": _cross,
    "cdist": _cdist,
    "einsum": _einsum,
    "tensordot": _tensordot,
}
LINEAR_ALGEBRA: dict[str, Handler] = {
    "matmul": _matmul,
    "cross": _cross,
    **dict.fromkeys(("inv", "cholesky", "matrix_exp", "matrix_power"), _square),
    "det": _determinant,
}
