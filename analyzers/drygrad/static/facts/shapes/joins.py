"""Operations that join tensors, cut them up, or pick elements by index tensors."""

from __future__ import annotations

from collections.abc import Sequence as Items

from drygrad.static.facts.shapes.core import (
    Mismatch,
    Outputs,
    Unknown,
    axis_of,
    broadcast,
    differ,
    dimension,
    meet,
    numel,
    replaced,
    shape_text,
    size_text,
)
from drygrad.static.facts.shapes.reading import Handler, Reader, items_of, shape_of, size_of_value
from drygrad.static.facts.values import Dim, Number, Sequence, Shape

MAX_OUTPUTS = 64


def _tensors(reader: Reader) -> list[Shape]:
    shapes = [shape_of(item) for item in items_of(reader.operand(0, "tensors"))]
    if not shapes:
        raise Unknown
    return shapes


def _total(sizes: Items[Dim]) -> Dim:
    return sum(size for size in sizes if isinstance(size, int)) if all(isinstance(s, int) for s in sizes) else None


def concatenated(shapes: list[Shape], dim: int) -> Shape:
    """Return the shape of tensors joined along a dimension."""
    shapes = [shape for shape in shapes if shape != (0,)] or shapes  # torch lets an empty vector join anything
    first = shapes[0]
    if len(set(map(len, shapes))) > 1 and any(len(shape) == 1 and not isinstance(shape[0], int) for shape in shapes):
        raise Unknown
    for shape in shapes:
        if not shape:
            raise Mismatch("cat", "a scalar cannot be concatenated")
        if len(shape) != len(first):
            raise Mismatch("cat", f"tensors of {len(first)} and {len(shape)} dimensions cannot be concatenated")
    axis = dimension(dim, len(first))
    for shape in shapes:
        if any(differ(a, b) for i, (a, b) in enumerate(zip(first, shape, strict=True)) if i != axis):
            raise Mismatch("cat", f"{shape_text(first)} and {shape_text(shape)} differ outside dimension {axis}")
    merged = _met(shapes)
    return replaced(merged, axis, _total([shape[axis] for shape in shapes]))


def _met(shapes: list[Shape]) -> Shape:
    """Return the sizes that all the shapes share."""
    merged = shapes[0]
    for shape in shapes[1:]:
        merged = tuple(meet(a, b) for a, b in zip(merged, shape, strict=True))
    return merged


def _cat(reader: Reader) -> Shape:
    return concatenated(_tensors(reader), reader.integer("dim", 0))


def _stack(reader: Reader) -> Shape:
    shapes = _tensors(reader)
    first = shapes[0]
    for shape in shapes:
        if len(shape) != len(first) or any(map(differ, first, shape)):
            raise Mismatch("stack", f"only equal shapes stack, not {shape_text(first)} and {shape_text(shape)}")
    dim = dimension(reader.integer("dim", 0), len(first) + 1)
    merged = _met(shapes)
    return (*merged[:dim], len(shapes), *merged[dim:])


def _hstack(reader: Reader) -> Shape:
    shapes = [shape or (1,) for shape in _tensors(reader)]
    return concatenated(shapes, 0 if len(shapes[0]) == 1 else 1)


def _vstack(reader: Reader) -> Shape:
    return concatenated([(1, *shape) if len(shape) == 1 else shape or (1, 1) for shape in _tensors(reader)], 0)


def _cut(shape: Shape, dim: int, sizes: Items[Dim]) -> Outputs:
    if len(sizes) > MAX_OUTPUTS:
        raise Unknown
    return Outputs([replaced(shape, dim, size) for size in sizes])


def _pieces(size: int, step: int) -> list[Dim]:
    """Return the sizes of a dimension cut into pieces of ``step``, the last of which may be smaller."""
    if step <= 0 or size > step * MAX_OUTPUTS:
        raise Unknown
    return [min(step, size - start) for start in range(0, size, step)] or [0]


def _axis(reader: Reader) -> tuple[Shape, int]:
    shape = reader.shape()
    return shape, axis_of(shape, reader.integer("dim", 0))


def _split(reader: Reader) -> Outputs:
    shape, dim = _axis(reader)
    wanted = reader.operand(1, "split_size_or_sections", "split_size", "split_sizes")
    size = shape[dim]
    if isinstance(wanted, Sequence):
        sizes = tuple(map(size_of_value, items_of(wanted)))
        if differ(_total(sizes), size):
            raise Mismatch("split", f"the sections {shape_text(sizes)} do not add up to the dimension's {size}")
        return _cut(shape, dim, sizes)
    step = size_of_value(wanted)
    if not isinstance(size, int) or not isinstance(step, int):
        raise Unknown
    return _cut(shape, dim, _pieces(size, step))


def _chunk(reader: Reader) -> Outputs:
    shape, dim = _axis(reader)
    size, count = shape[dim], reader.integer("chunks")
    if count <= 0 or not isinstance(size, int):
        raise Unknown
    return _cut(shape, dim, _pieces(size, -(-size // count)) if size else [0] * count)


def _tensor_split(reader: Reader) -> Outputs:
    shape, dim = _axis(reader)
    size, count = shape[dim], size_of_value(reader.operand(1, "indices_or_sections", "sections"))
    if not isinstance(size, int) or not isinstance(count, int) or not 0 < count <= MAX_OUTPUTS:
        raise Unknown
    return _cut(shape, dim, [size // count + (index < size % count) for index in range(count)])


def _unbind(reader: Reader) -> Outputs:
    shape, dim = _axis(reader)
    count = shape[dim]
    if not isinstance(count, int) or count > MAX_OUTPUTS:
        raise Unknown
    return Outputs([replaced(shape, dim)] * count)


def _broadcast_tensors(reader: Reader) -> Outputs:
    values = reader.call.values
    if len(values) == 1 and isinstance(values[0], Sequence):
        values = items_of(values[0])
    return Outputs([broadcast(*map(shape_of, values))] * len(values))


def _meshgrid(reader: Reader) -> Outputs:
    values = reader.call.values
    if len(values) == 1 and isinstance(values[0], Sequence):
        values = items_of(values[0])
    indexing = reader.call.keyword_values.get("indexing")
    sizes = [numel(shape_of(value)) for value in values]
    if indexing is not None and getattr(indexing, "value", None) != "ij":
        raise Unknown
    return Outputs([tuple(sizes)] * len(sizes))


def _gather(reader: Reader) -> Shape:
    shape, index, dim = reader.shape(), reader.shape(2, "index"), reader.integer("dim")
    axis = dimension(dim, len(shape))
    if len(index or (1,)) != len(shape or (1,)):
        raise Mismatch("gather", f"the index has {len(index)} dimensions, the input {len(shape)}")
    for place, (wanted, size) in enumerate(zip(index, shape, strict=False)):
        if place != axis and isinstance(wanted, int) and isinstance(size, int) and wanted > size:
            raise Mismatch("gather", f"the index {shape_text(index)} is larger than the input {shape_text(shape)}")
    return index


def _index_select(reader: Reader) -> Shape:
    shape, index = reader.shape(), reader.shape(2, "index")
    axis = dimension(reader.integer("dim"), len(shape))
    if len(index) > 1:
        raise Mismatch("gather", f"index_select expects an index of 1 dimension, not {shape_text(index)}")
    chosen = index[0] if index else 1
    return replaced(shape, axis, chosen) if shape else shape


def _take(reader: Reader) -> Shape:
    return reader.shape(1, "index")


def _take_along_dim(reader: Reader) -> Shape:
    shape, index, dim = reader.shape(), reader.shape(1, "indices"), reader.given("dim")
    if dim is None:
        return (numel(index),)
    axis = dimension(reader.integer("dim"), len(shape))
    if len(shape) != len(index):
        raise Mismatch("gather", f"the index has {len(index)} dimensions, the input {len(shape)}")
    result = broadcast(replaced(shape, axis, 1), replaced(index, axis, 1)) or ()
    return replaced(result, axis, index[axis])


def _one_hot(reader: Reader) -> Shape:
    count = reader.size("num_classes")
    return (*reader.shape(), None if count == -1 else count)


def _searchsorted(reader: Reader) -> Shape:
    value = reader.operand(1, "input")
    return () if isinstance(value, Number) else shape_of(value)


def embedded(index: Shape, width: Dim) -> Shape:
    """Return the shape of embeddings looked up by an index tensor."""
    return (*index, width)


def _embedding(reader: Reader) -> Shape:
    weight = reader.shape(1, "weight")
    if len(weight) != 2:
        raise Mismatch("embedding", f"the weight of an embedding has 2 dimensions, not {size_text(len(weight))}")
    return embedded(reader.shape(), weight[1])


OPERATIONS: dict[str, Handler] = {
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "stack": _stack,
    "hstack": _hstack,
    **dict.fromkeys(("vstack", "row_stack"), _vstack),
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "chunk": _chunk,
    "tensor_split": _tensor_split,
    "unbind": _unbind,
    "broadcast_tensors": _broadcast_tensors,
    "meshgrid": _meshgrid,
    "gather": _gather,
    "index_select": _index_select,
    "take": _take,
    "take_along_dim": _take_along_dim,
    "one_hot": _one_hot,
    "searchsorted": _searchsorted,
    "embedding": _embedding,
}
