"""Operations that reduce dimensions or select along one."""

from __future__ import annotations

from drygrad.static.facts.shapes.core import Mismatch, Outputs, Unknown, axis_of, broadcast, dimension, replaced, words
from drygrad.static.facts.shapes.reading import Handler, Reader, integer_of
from drygrad.static.facts.values import Shape, Tensor

REDUCED = words("sum nansum mean nanmean prod amax amin all any logsumexp argmax argmin count_nonzero norm")
SPREADS = ("std", "var")
PAIRS = {"max": None, "min": None, "median": None, "nanmedian": None, "mode": -1, "kthvalue": -1}
"""Operations with values and indices along a dimension, and the dimension where none is given."""


def reduced(shape: Shape, dims: tuple[int, ...] | None, keepdim: bool) -> Shape:
    """Return the shape without some dimensions (all where none is named), or with ones in their place."""
    gone = {dimension(dim, len(shape)) for dim in dims} if dims else set(range(len(shape)))
    if keepdim:
        return tuple(1 if index in gone else size for index, size in enumerate(shape))
    return tuple(size for index, size in enumerate(shape) if index not in gone)


def _reduce(reader: Reader) -> Shape:
    dims, keepdim = reader.integers("dim"), reader.flag("keepdim")
    if dims is None and not keepdim and isinstance(reader.operand(0, "input"), Tensor):
        return ()
    return reduced(reader.shape(), dims, keepdim)


def _spread(reader: Reader) -> Shape:
    """Std and var: the third positional argument has had two meanings."""
    if len(reader.call.values) > 2:
        raise Unknown
    return _reduce(reader)


def _spread_mean(reader: Reader) -> Outputs:
    return Outputs([_spread(reader)] * 2)


def _pair(reader: Reader) -> Shape | Outputs | None:
    values = reader.call.values
    other = values[1] if len(values) > 1 else reader.call.keyword_values.get("other")
    if isinstance(other, Tensor):
        return broadcast(reader.shape(), other.shape)
    default = PAIRS[reader.call.operation]
    if reader.given("dim") is None and default is None:
        if len(values) > 1:
            raise Unknown
        return _scalar(reader)
    dim = reader.integer("dim", default)
    return Outputs([reduced(reader.shape(), (dim,), reader.flag("keepdim"))] * 2)


def _aminmax(reader: Reader) -> Outputs:
    return Outputs([_reduce(reader)] * 2)


def _along_pair(reader: Reader) -> Outputs:
    shape = reader.shape()
    dimension(reader.integer("dim", -1), len(shape))
    return Outputs([shape] * 2)


def _topk(reader: Reader) -> Outputs:
    shape = reader.shape()
    dim = axis_of(shape, reader.integer("dim", -1))
    count, size = reader.size("k"), shape[dim]
    if isinstance(count, int) and isinstance(size, int) and count > size:
        raise Mismatch("topk", f"{count} elements are asked for, the dimension has {size}")
    return Outputs([replaced(shape, dim, count)] * 2)


def _quantile(reader: Reader) -> Shape:
    quantile = reader.operand(1, "q")
    if not hasattr(quantile, "value"):
        raise Unknown
    return _reduce(reader)


def _cosine_similarity(reader: Reader) -> Shape:
    shape = broadcast(reader.shape(0, "x1"), reader.shape(1, "x2"))
    return reduced(shape or (), (reader.integer("dim", 1),), False)


def _pairwise_distance(reader: Reader) -> Shape:
    shape = broadcast(reader.shape(0, "x1"), reader.shape(1, "x2"))
    return reduced(shape or (), (-1,), reader.flag("keepdim"))


def _scalar(reader: Reader) -> Shape:
    reader.shape()
    return ()


def _found(reader: Reader) -> Shape:
    """One dimension of a length that depends on the values."""
    reader.shape()
    return (None,)


def _nonzero(reader: Reader) -> Shape | Outputs:
    rank = len(reader.shape())
    return Outputs([(None,)] * max(rank, 1)) if reader.flag("as_tuple") else (None, rank)


def _unique(reader: Reader) -> Shape:
    if any(reader.flag(name) for name in ("return_inverse", "return_counts")) or reader.given("dim") is not None:
        raise Unknown
    return _found(reader)


def _histc(reader: Reader) -> Shape:
    return (integer_of(bins),) if (bins := reader.given("bins")) is not None else (100,)


def _matrix_norm(reader: Reader) -> Shape:
    return reduced(reader.shape(0, "A"), reader.integers("dim") or (-2, -1), reader.flag("keepdim"))


LINEAR_ALGEBRA: dict[str, Handler] = {
    **dict.fromkeys(("norm", "vector_norm"), _reduce),
    "matrix_norm": _matrix_norm,
}
OPERATIONS: dict[str, Handler] = {
    **dict.fromkeys(REDUCED, _reduce),
    **dict.fromkeys(SPREADS, _spread),
    **dict.fromkeys(("std_mean", "var_mean"), _spread_mean),
    **dict.fromkeys(PAIRS, _pair),
    "aminmax": _aminmax,
    **dict.fromkeys(("sort", "cummax", "cummin"), _along_pair),
    "topk": _topk,
    **dict.fromkeys(("quantile", "nanquantile"), _quantile),
    "cosine_similarity": _cosine_similarity,
    "pairwise_distance": _pairwise_distance,
    **dict.fromkeys(("trace", "dist"), _scalar),
    **dict.fromkeys(("masked_select", "bincount"), _found),
    "nonzero": _nonzero,
    "unique": _unique,
    "histc": _histc,
}
