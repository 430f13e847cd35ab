"""Fourier transforms: as many frequencies as samples, or half of them where the signal is real."""

from __future__ import annotations

from drygrad.static.facts.shapes.core import Unknown, dimension, replaced
from drygrad.static.facts.shapes.reading import Handler, Reader
from drygrad.static.facts.values import Dim, Shape

_HALVES = ("rfft", "ihfft")
_DOUBLES = ("irfft", "hfft")


def _transformed(reader: Reader) -> Shape:
    shape, kind = reader.shape(), reader.call.operation.rstrip("2n")
    several = reader.call.operation != kind
    sizes = reader.integers("s" if several else "n")
    dims = _dims(reader, len(shape), None if sizes is None else len(sizes)) if several else (reader.integer("dim", -1),)
    for index, dim in enumerate(dims):
        place = dimension(dim, len(shape))
        size: Dim = shape[place] if sizes is None or sizes[index] == -1 else sizes[index]
        if index == len(dims) - 1:
            size = _last(kind, size, given=sizes is not None)
        shape = replaced(shape, place, size)
    return shape


def _dims(reader: Reader, rank: int, count: int | None) -> tuple[int, ...]:
    given = reader.integers("dim")
    if given is not None:
        return given
    count = 2 if reader.call.operation[-1] == "2" else rank if count is None else count
    if count > rank:
        raise Unknown
    return tuple(range(-count, 0))


def _last(kind: str, size: Dim, *, given: bool) -> Dim:
    if kind in _HALVES:
        return size // 2 + 1 if isinstance(size, int) else None
    if kind in _DOUBLES and not given:
        return 2 * (size - 1) if isinstance(size, int) else None
    return size


OPERATIONS: dict[str, Handler] = {
    f"{kind}{dims}": _transformed for kind in ("fft", "ifft", *_HALVES, *_DOUBLES) for dims in ("", "2", "n")
}
