"""Results of two calls, one with positions more than the other: what both have must be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from drygrad.worker.experiments.trace import agree

_View = Callable[[torch.Tensor, int], torch.Tensor]


class Alike:
    """Compares what has ``size`` positions with what has only the first ``real`` of these.

    A size that depends on that number otherwise (one token in front, samples and positions in one axis) is
    understood once results have been equal in that reading; until then such results say nothing.
    """

    def __init__(self, size: int, real: int) -> None:
        self._size, self._real = size, real
        self._known: dict[tuple[int, int], _View] = {(size, real): self._first}

    def equal(self, long: torch.Tensor, short: torch.Tensor) -> bool | None:
        """Say whether a result is the same but for the positions that the other lacks; None where nobody can tell."""
        if long.dim() != short.dim():
            return None
        axes = [axis for axis in range(long.dim()) if long.shape[axis] != short.shape[axis]]
        new = {pair for axis in axes if (pair := (long.shape[axis], short.shape[axis])) not in self._known}
        if len(new) > 1:
            return None
        pair = next(iter(new), None)
        if pair is None:
            return agree(self._cut(long, short, axes), short)
        for view in self._readings(*pair):
            self._known[pair] = view
            if agree(self._cut(long, short, axes), short):
                return True
            del self._known[pair]
        return None

    def _cut(self, long: torch.Tensor, short: torch.Tensor, axes: list[int]) -> torch.Tensor:
        for axis in axes:
            long = self._known[long.shape[axis], short.shape[axis]](long, axis)
        return long

    def _readings(self, long: int, short: int) -> Iterator[_View]:
        """Yield how an axis of one size may come to one of the other."""
        size, real = self._size, self._real
        if long - short == size - real:
            yield lambda tensor, axis: tensor.narrow(axis, 0, short)
        if long % size == 0 and long // size * real == short:
            count = long // size
            yield lambda tensor, axis: _part(tensor, axis, (count, size), 1, real)
            yield lambda tensor, axis: _part(tensor, axis, (size, count), 0, real)

    def _first(self, tensor: torch.Tensor, axis: int) -> torch.Tensor:
        return tensor.narrow(axis, 0, self._real)


def _part(tensor: torch.Tensor, axis: int, sizes: tuple[int, int], which: int, count: int) -> torch.Tensor:
    parted = tensor.reshape(*tensor.shape[:axis], *sizes, *tensor.shape[axis + 1 :])
    return parted.narrow(axis + which, 0, count).flatten(axis, axis + 1)
