"""How a quantity went over the time of a run, in a bounded number of samples that keep the peaks."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

_LIMIT = 400
_FINEST = 1e-4


class Sample(NamedTuple):
    """The largest value of a stretch of time, in seconds since the first sample, within one phase."""

    seconds: float
    value: int
    phase: str


class Timeline:
    """Samples in the order of time; once there are too many, neighbours of one phase become one."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._resolution = _FINEST
        self._began = perf_counter()
        self._samples: list[Sample] = []

    def add(self, value: int, phase: str) -> None:
        """Take note of a value."""
        seconds = perf_counter() - self._began
        last = self._samples[-1] if self._samples else None
        if last and value <= last.value and last.phase == phase and seconds - last.seconds < self._resolution:
            return  # the usual case, and on the path of every operation
        self._put(Sample(seconds, value, phase))
        if len(self._samples) > self._limit:
            self._thin()

    def _put(self, new: Sample) -> None:
        last = self._samples[-1] if self._samples else None
        if last and last.phase == new.phase and new.seconds - last.seconds < self._resolution:
            self._samples[-1] = last._replace(value=max(last.value, new.value))
        else:
            self._samples.append(new)

    def _thin(self) -> None:
        """Merge neighbours twice as far apart as before; phases that alternate faster than that stay apart."""
        self._resolution *= 2
        samples, self._samples = self._samples, []
        for sample in samples:
            self._put(sample)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the samples as they cross the wire."""
        return [{"seconds": round(s.seconds, 6), "bytes": s.value, "phase": s.phase} for s in self._samples]
