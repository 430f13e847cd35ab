"""Results of two calls, one with positions more than the other: what both have must be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from drygrad.worker.experiments.trace import agree

_View = Callable[[torch.Tensor, int], torch.Tensor]


class Alike:
    """Compares what has ``size`` positions with what has only the first ``real`` of these.

    Where ``samples`` is given, the other lacks the first of so many samples, too; what has no axis of samples says
    nothing then. A size that depends on these numbers otherwise (one token in front, samples and positions in one
    axis) is understood once results have been equal in that reading; until then such results say nothing.
    """

    def __init__(self, size: int, real: int, samples: int | None = None) -> None:
        self._cuts = [(size, 0, real)] + ([(samples, 1, samples - 1)] if samples else [])
        """Of axes of one size: where what both have begins, and how much that is."""
        self._samples = samples
        self._size, self._real = size, real
        self._known: dict[tuple[int, int], _View] = {(n, kept): _narrowed(start, kept) for n, start, kept in self._cuts}

    def equal(self, long: torch.Tensor, short: torch.Tensor) -> bool | None:
        """Say whether a result is the same but for what the other lacks; None where nobody can tell."""
        if long.dim() != short.dim():
            return None
        axes = [axis for axis in range(long.dim()) if long.shape[axis] != short.shape[axis]]
        pairs = {(long.shape[axis], short.shape[axis]) for axis in axes}
        new = [pair for pair in pairs if pair not in self._known]
        if len(new) > 1 or (self._samples and (self._samples, self._samples - 1) not in pairs and not new):
            return None
        if not new:
            return agree(self._cut(long, short, axes), short)
        for view in self._readings(*new[0]):
            self._known[new[0]] = view
            if agree(self._cut(long, short, axes), short):
                return True
            del self._known[new[0]]
        return None

    def _cut(self, long: torch.Tensor, short: torch.Tensor, axes: list[int]) -> torch.Tensor:
        for axis in axes:
            long = self._known[long.shape[axis], short.shape[axis]](long, axis)
        return long

    def _readings(self, long: int, short: int) -> Iterator[_View]:
        """Yield how an axis of one size may come to one of the other."""
        if long - short == self._size - self._real:
            yield _narrowed(0, short)
        for size, start, kept in self._cuts:
            count = long // size
            if long == count * size and short == count * kept:
                yield _parted((count, size), (0, start), (count, kept))
                yield _parted((size, count), (start, 0), (kept, count))


def _narrowed(start: int, count: int) -> _View:
    return lambda tensor, axis: tensor.narrow(axis, start, count)


def _parted(sizes: tuple[int, int], starts: tuple[int, int], counts: tuple[int, int]) -> _View:
    """Return what takes an axis for two, and of each of these a part."""

    def view(tensor: torch.Tensor, axis: int) -> torch.Tensor:
        parts = tensor.reshape(*tensor.shape[:axis], *sizes, *tensor.shape[axis + 1 :])
        for place in (0, 1):
            parts = parts.narrow(axis + place, starts[place], counts[place])
        return parts.flatten(axis, axis + 1)

    return view
