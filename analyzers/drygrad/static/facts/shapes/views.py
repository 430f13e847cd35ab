"""Operations that lay the same elements out in another shape."""

from __future__ import annotations

from drygrad.static.facts.shapes.core import (
    Mismatch,
    Unknown,
    axis_of,
    differ,
    dimension,
    numel,
    product,
    replaced,
    shape_text,
    size_text,
    uncommon,
)
from drygrad.static.facts.shapes.reading import Handler, Reader, items_of, size_of_value
from drygrad.static.facts.values import Dim, Dtype, Shape, Tensor


def viewed(shape: Shape, sizes: Shape) -> Shape:
    """Return the shape of a tensor viewed in other sizes, one of which may be -1."""
    unclear = any(size is None for size in sizes)
    if -1 not in sizes:
        _check_elements(shape, sizes)
        return sizes
    if unclear:
        return tuple(None if size == -1 else size for size in sizes)
    known = tuple(size for size in sizes if size != -1)
    if len(known) != len(sizes) - 1:
        raise Mismatch("view", "only one size may be -1")
    return tuple(_left_over(shape, known) if size == -1 else size for size in sizes)


def _check_elements(shape: Shape, sizes: Shape) -> None:
    before, after = map(product, uncommon(shape, sizes))
    if differ(before, after):
        raise Mismatch("view", f"the shape {shape_text(sizes)} does not hold the elements of {shape_text(shape)}")


def _left_over(shape: Shape, known: Shape) -> Dim:
    """Return the size that -1 stands for."""
    if known and 0 in known:
        return None
    rest, divisor = uncommon(shape, known)
    number, by = product(size for size in rest if isinstance(size, int)), product(divisor)
    symbols = [size for size in rest if not isinstance(size, int)]
    if not isinstance(number, int) or not isinstance(by, int):
        return None
    if number % by == 0:
        return product((number // by, *symbols))
    if symbols:
        return None
    raise Mismatch("view", f"{number} elements cannot be laid out in rows of {by}")


def _view(reader: Reader) -> Shape:
    values = reader.call.values
    if len(values) > 1 and isinstance(values[1], Dtype):
        raise Unknown
    sizes, receiver = reader.sizes(1, "shape", "size"), reader.operand(0, "input")
    if isinstance(receiver, Tensor) and receiver.shape is None:
        return tuple(None if size == -1 else size for size in sizes)
    return viewed(reader.shape(), sizes)


def _view_as(reader: Reader) -> Shape:
    sizes = reader.shape(1, "other")
    _check_elements(reader.shape(), sizes)
    return sizes


def _permute(reader: Reader) -> Shape:
    shape, dims = reader.shape(), reader.sizes(1, "dims")
    if len(dims) != len(shape):
        raise Mismatch("permute", f"{len(dims)} dimensions are named, the tensor has {len(shape)}")
    order = [dimension(dim, len(shape)) for dim in dims if isinstance(dim, int)]
    if len(set(order)) != len(order):
        raise Mismatch("permute", f"a dimension is named twice in {shape_text(dims)}")
    return tuple(shape[index] for index in order) if len(order) == len(dims) else (None,) * len(shape)


def swapped(shape: Shape, first: int, second: int) -> Shape:
    """Return the shape with two dimensions exchanged."""
    if not shape:
        return shape
    sizes = list(shape)
    i, j = dimension(first, len(shape)), dimension(second, len(shape))
    sizes[i], sizes[j] = sizes[j], sizes[i]
    return tuple(sizes)


def _transpose(reader: Reader) -> Shape:
    dims = [size_of_value(reader.operand(index + 1, f"dim{index}", f"axis{index}")) for index in (0, 1)]
    shape = reader.shape()
    if not isinstance(dims[0], int) or not isinstance(dims[1], int):
        return (None,) * len(shape)
    return swapped(shape, dims[0], dims[1])


def _t(reader: Reader) -> Shape:
    shape = reader.shape()
    if len(shape) > 2:
        raise Mismatch("permute", f"t() expects at most 2 dimensions, the tensor has {len(shape)}")
    return shape[::-1]


def _adjoint(reader: Reader) -> Shape:
    shape = reader.shape()
    return swapped(shape, -1, -2) if len(shape) > 1 else shape


def _movedim(reader: Reader) -> Shape:
    shape = reader.shape()
    source, destination = reader.integers("source"), reader.integers("destination")
    if source is None or destination is None or len(source) != len(destination):
        raise Unknown
    source = tuple(dimension(dim, len(shape)) for dim in source)
    destination = tuple(dimension(dim, len(shape)) for dim in destination)
    rest = (size for index, size in enumerate(shape) if index not in source)
    moved = dict(zip(destination, (shape[index] for index in source), strict=True))
    return tuple(moved[index] if index in moved else next(rest) for index in range(len(shape)))


def _squeeze(reader: Reader) -> Shape:
    shape, dims = reader.shape(), reader.integers("dim")
    if dims is None and len(reader.call.values) > 1:
        raise Unknown
    asked = set(range(len(shape))) if dims is None else {dimension(dim, len(shape)) for dim in dims}
    if any(not isinstance(shape[index], int) for index in asked if shape):
        raise Unknown
    return tuple(size for index, size in enumerate(shape) if index not in asked or size != 1)


def _unsqueeze(reader: Reader) -> Shape:
    shape = reader.shape()
    dim = dimension(reader.integer("dim"), len(shape) + 1)
    return (*shape[:dim], 1, *shape[dim:])


def _flatten(reader: Reader) -> Shape:
    default = 1 if reader.call.form == "module" else 0
    return flattened(reader.shape(), reader.integer("start_dim", default), reader.integer("end_dim", -1))


def flattened(shape: Shape, start: int, end: int) -> Shape:
    """Return the shape with the dimensions from ``start`` to ``end``, inclusive, made one."""
    first, last = dimension(start, len(shape)), dimension(end, len(shape))
    if first > last:
        raise Mismatch("flatten", f"flattening starts at dimension {first}, after its end {last}")
    return (*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :])


def _ravel(reader: Reader) -> Shape:
    return (numel(reader.shape()),)


def _unflatten(reader: Reader) -> Shape:
    shape = reader.shape()
    value = reader.given("sizes") or reader.given("unflattened_size")
    if value is None:
        raise Unknown
    dim = axis_of(shape, reader.integer("dim"))
    sizes = tuple(map(size_of_value, items_of(value)))
    return replaced(shape, dim, *viewed((shape[dim],), sizes))


def expanded(shape: Shape, sizes: Shape) -> Shape:
    """Return the shape of a tensor expanded to other sizes, where -1 keeps what was."""
    lead = len(sizes) - len(shape)
    if lead < 0:
        raise Mismatch(
            "expand", f"{len(sizes)} sizes {shape_text(sizes)} are given for the {len(shape)} dimensions of the tensor"
        )
    return (*sizes[:lead], *(_expanded_size(a, b) for a, b in zip(shape, sizes[lead:], strict=True)))


def _expanded_size(before: Dim, after: Dim) -> Dim:
    if after == -1:
        return before
    if isinstance(before, int) and before != 1:
        if differ(before, after):
            raise Mismatch("expand", f"a dimension of {before} cannot be expanded to {size_text(after)}")
        return before
    return after


def _expand(reader: Reader) -> Shape:
    return expanded(reader.shape(), reader.sizes(1, "size", "shape"))


def _expand_as(reader: Reader) -> Shape:
    return expanded(reader.shape(), reader.shape(1, "other"))


def _repeat(reader: Reader) -> Shape:
    shape, times = reader.shape(), reader.sizes(1, "repeats", "dims")
    if reader.call.operation == "tile":
        times = (1,) * (len(shape) - len(times)) + times
    if len(times) < len(shape):
        raise Mismatch("repeat", f"{len(times)} repeats are given for the {len(shape)} dimensions of the tensor")
    padded = (1,) * (len(times) - len(shape)) + shape
    return tuple(product(pair) for pair in zip(padded, times, strict=True))


def _repeat_interleave(reader: Reader) -> Shape:
    shape, count = reader.shape(), size_of_value(reader.operand(1, "repeats"))
    if reader.given("dim") is None:
        return (product((*shape, count)),)
    dim = axis_of(shape, reader.integer("dim"))
    return replaced(shape, dim, product((shape[dim], count)))


def _diagonal_length(rows: Dim, columns: Dim, offset: int) -> Dim:
    if not isinstance(rows, int) or not isinstance(columns, int):
        return rows if rows == columns and not offset else None
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


def _diagonal(reader: Reader) -> Shape:
    shape, offset = reader.shape(), reader.integer("offset", 0)
    first, second = (dimension(reader.integer(name, index), len(shape)) for index, name in enumerate(("dim1", "dim2")))
    rest = tuple(size for index, size in enumerate(shape) if index not in (first, second))
    return (*rest, _diagonal_length(shape[first], shape[second], offset))


def _diag(reader: Reader) -> Shape:
    shape, offset = reader.shape(), reader.integer("diagonal", 0)
    if len(shape) == 2:
        return (_diagonal_length(*shape, offset),)
    if len(shape) != 1:
        raise Mismatch("permute", f"diag() expects 1 or 2 dimensions, the tensor has {len(shape)}")
    size = shape[0]
    if offset:
        size = size + abs(offset) if isinstance(size, int) else None
    return (size, size)


def _diag_embed(reader: Reader) -> Shape:
    shape = reader.shape()
    if not shape or len(reader.call.values) + len(reader.call.keyword_values) > 1:
        raise Unknown
    return (*shape, shape[-1])


def _narrow(reader: Reader) -> Shape:
    shape = reader.shape()
    dim = dimension(reader.integer("dim"), len(shape))
    return replaced(shape, dim, reader.size("length"))


def _select(reader: Reader) -> Shape:
    shape = reader.shape()
    return replaced(shape, dimension(reader.integer("dim"), len(shape)))


def _pixel_shuffle(reader: Reader) -> Shape:
    shape = reader.shape()
    factor = reader.integer("upscale_factor")
    if len(shape) < 3:
        raise Mismatch("view", f"pixel_shuffle needs at least 3 dimensions, the tensor has {len(shape)}")
    channels, height, width = shape[-3:]
    if isinstance(channels, int) and channels % (factor * factor):
        raise Mismatch("view", f"{channels} channels cannot be spread over squares of {factor * factor} pixels")
    fewer = channels // (factor * factor) if isinstance(channels, int) else None
    return (*shape[:-3], fewer, product((height, factor)), product((width, factor)))


def _view_as_real(reader: Reader) -> Shape:
    return (*reader.shape(), 2)


def _view_as_complex(reader: Reader) -> Shape:
    return reader.shape()[:-1]


OPERATIONS: dict[str, Handler] = {
    **dict.fromkeys(("view", "reshape"), _view),
    **dict.fromkeys(("view_as", "reshape_as"), _view_as),
    "permute": _permute,
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _transpose),
    "t": _t,
    "adjoint": _adjoint,
    **dict.fromkeys(("movedim", "moveaxis"), _movedim),
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "flatten": _flatten,
    "ravel": _ravel,
    "unflatten": _unflatten,
    **dict.fromkeys(("expand", "broadcast_to"), _expand),
    "expand_as": _expand_as,
    **dict.fromkeys(("repeat", "tile"), _repeat),
    "repeat_interleave": _repeat_interleave,
    "diagonal": _diagonal,
    "diag": _diag,
    "diag_embed": _diag_embed,
    "narrow": _narrow,
    "select": _select,
    "pixel_shuffle": _pixel_shuffle,
    "view_as_real": _view_as_real,
    "view_as_complex": _view_as_complex,
}
RESHAPING = frozenset(("transpose", "swapaxes", "swapdims", "t", "squeeze", "unsqueeze"))
"""The operations whose in-place form changes the receiver's shape."""
