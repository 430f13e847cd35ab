"""A trace on a GPU: what is allocated and reserved over time, what is there at the peak, what first does not fit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from drygrad.worker.forecast.allocator import CachingAllocator, Refusal
from drygrad.worker.forecast.allocator_settings import Settings
from drygrad.worker.forecast.events import PHASES, WORKSPACES, Allocation, Mark, Operation, Release, Trace
from drygrad.worker.forecast.gpu import Gpu, Workspaces

_SAMPLES = 400


class Sample(NamedTuple):
    """The most that is allocated in a stretch of events, and the phase of that."""

    at: int
    bytes: int
    phase: str


class Refused(NamedTuple):
    """The first allocation that the GPU has no room for."""

    allocation: Allocation
    refusal: Refusal


class Replay:
    """One device's allocations and releases in their order."""

    def __init__(
        self, events: list[Any], device: int, limit: int | None = None, settings: Settings | None = None
    ) -> None:
        self.allocator = CachingAllocator(limit, settings)
        self.phases: dict[str, int] = {}
        """The most that is allocated while each phase goes on."""
        self.steps: list[int] = []
        """What is allocated after each step of an optimizer."""
        self.samples: list[Sample] = []
        self.refused: Refused | None = None
        self.peak_at: int | None = None
        """The place, in the trace, of the allocation that makes the peak."""
        self._device = device
        self._addresses: dict[int, int] = {}
        for at, event in enumerate(events):
            self._hear(at, event)

    def _hear(self, at: int, event: object) -> None:
        allocator = self.allocator
        if isinstance(event, Release):
            allocator.free(self._addresses.pop(event.id, 0))
        elif isinstance(event, Allocation) and event.device == self._device:
            most = allocator.peak_allocated
            self._addresses[event.id] = allocator.malloc(event.size)
            if allocator.peak_allocated > most:
                self.peak_at = at
            if allocator.refused is not None and self.refused is None:
                self.refused = Refused(event, allocator.refused)
            now = allocator.allocated
            self.phases[event.phase] = max(now, self.phases.get(event.phase, 0))
            self.samples.append(Sample(at, now, event.phase))
        elif isinstance(event, Mark) and event.name == "step-end":
            self.steps.append(allocator.allocated)

    def thinned(self) -> list[Sample]:
        """Return as many samples as a picture has room for: the greatest of each stretch."""
        length = -(-len(self.samples) // _SAMPLES) or 1
        stretches = (self.samples[i : i + length] for i in range(0, len(self.samples), length))
        return [max(stretch, key=lambda sample: sample.bytes) for stretch in stretches]


class Live(NamedTuple):
    """An allocation that is there at the peak, with the bytes that its block takes."""

    allocation: Allocation
    bytes: int


def live_at(events: list[Any], device: int, replayed: Replay) -> list[Live]:
    """Return what is allocated when the peak is made; the bytes of all are the peak."""
    at, limit = replayed.peak_at, replayed.allocator.limit
    allocator, addresses, live = (
        CachingAllocator(limit, replayed.allocator.settings),
        dict[int, int](),
        dict[int, Allocation](),
    )
    for event in events[: 0 if at is None else at + 1]:
        if isinstance(event, Release):
            allocator.free(addresses.pop(event.id, 0))
            live.pop(event.id, None)
        elif isinstance(event, Allocation) and event.device == device:
            addresses[event.id] = allocator.malloc(event.size)
            live[event.id] = event
    return [Live(event, allocator.size_at(addresses[number])) for number, event in live.items()]


def with_workspaces(trace: Trace, gpu: Gpu | None, environment: Mapping[str, str]) -> list[Any]:
    """Return the events with what products of matrices keep beside their results, where the GPU is known."""
    if gpu is None:
        return list(trace.events)
    workspaces = Workspaces(gpu, environment)
    number = itertools.count(-1, -1)
    events: list[Any] = []
    for event in trace.events:
        if isinstance(event, Operation) and event.device >= 0:
            size = workspaces.taken_by(event.name, event.phase, event.device)
            if size:
                one = Allocation(next(number), size, event.site, event.phase, event.name, event.device)
                trace.kinds[one.id] = WORKSPACES
                events.append(one)
        events.append(event)
    return events


def devices(trace: Trace) -> dict[int, int]:
    """Return how many bytes each device is asked for in all."""
    asked: dict[int, int] = {}
    for event in trace.events:
        if isinstance(event, Allocation):
            asked[event.device] = asked.get(event.device, 0) + event.size
    return asked


def ordered(phases: dict[str, int]) -> dict[str, int]:
    """Return what there is of each phase in the order in which they come."""
    return {phase: phases[phase] for phase in PHASES if phase in phases}
