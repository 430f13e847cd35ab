"""How a quantity went over the time of a run, in a bounded number of samples that keep the peaks."""

from __future__ import annotations

from time import perf_counter
from typing import Any

_LIMIT = 400
_FINEST = 1e-4


class Sample:
    """The largest value of a stretch of time, in seconds since the first sample, within one phase."""

    __slots__ = ("phase", "seconds", "value")

    def __init__(self, seconds: float, value: int, phase: str) -> None:
        self.seconds = seconds
        self.value = value
        self.phase = phase


class Timeline:
    """Samples in the order of time; once there are too many, those of one phase that are near become one."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._resolution = _FINEST
        self._began = perf_counter()
        self._samples: list[Sample] = []
        self._last = Sample(-1.0, 0, "")

    def add(self, value: int, phase: str) -> None:
        """Take note of a value."""
        seconds = perf_counter() - self._began
        last = self._last
        if last.phase == phase and seconds - last.seconds < self._resolution:
            last.value = max(last.value, value)
            return  # the usual case, and on the path of every operation
        self._last = Sample(seconds, value, phase)
        self._samples.append(self._last)
        if len(self._samples) > self._limit:
            self._thin()

    def _thin(self) -> None:
        """Merge samples of one phase twice as far apart as before, also where phases alternate faster than that."""
        self._resolution *= 2
        kept: list[Sample] = []
        last: dict[str, Sample] = {}
        for sample in self._samples:
            before = last.get(sample.phase)
            if before is not None and sample.seconds - before.seconds < self._resolution:
                before.value = max(before.value, sample.value)
            else:
                kept.append(sample)
                last[sample.phase] = sample
        self._samples, self._last = kept, kept[-1]

    def as_json(self) -> list[dict[str, Any]]:
        """Return the samples as they cross the wire."""
        return [{"seconds": round(s.seconds, 6), "bytes": s.value, "phase": s.phase} for s in self._samples]
