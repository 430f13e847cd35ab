"""A trace on a GPU: what is allocated and reserved over time, what is there at the peak, what first does not fit."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from drygrad.worker.forecast.allocator import CachingAllocator, Refusal
from drygrad.worker.forecast.allocator_settings import Settings
from drygrad.worker.forecast.events import (
    PHASES,
    TEMPORARIES,
    WORKSPACES,
    Allocation,
    Copy,
    Mark,
    Operation,
    Release,
    Trace,
    Use,
)
from drygrad.worker.forecast.gpu import Gpu, Workspaces

_SAMPLES = 400
WAITS = ("sync", "d2h")
"""Events behind which the host knows what streams have done."""


class Sample(NamedTuple):
    """The most that is allocated in a stretch of events, what it is made of, and the phase of that."""

    at: int
    bytes: int
    phase: str
    reserved: int
    kinds: dict[str, int]


class Refused(NamedTuple):
    """The first allocation that the GPU has no room for."""

    at: int
    allocation: Allocation
    refusal: Refusal


class Replay:
    """One device's allocations and releases in their order."""

    def __init__(
        self,
        events: list[Any],
        device: int,
        limit: int | None = None,
        settings: Settings | None = None,
        kind: Callable[[Allocation], str] = lambda _: TEMPORARIES,
    ) -> None:
        self.allocator = CachingAllocator(limit, settings)
        self.phases: dict[str, int] = {}
        """The most that is allocated while each phase goes on."""
        self.steps: list[int] = []
        """What is allocated after each step of an optimizer."""
        self.marks: list[tuple[int, str]] = []
        """Where backward passes and steps begin and end."""
        self.samples: list[Sample] = []
        self.refused: Refused | None = None
        self.peak_at: int | None = None
        """The place, in the trace, of the allocation that makes the peak."""
        self._device, self._kind = device, kind
        self.sizes: dict[int, int] = {}
        """The bytes that the block of each allocation takes."""
        self._addresses: dict[int, tuple[int, str, int]] = {}
        self._kinds: defaultdict[str, int] = defaultdict(int)
        self._stretch = -(-sum(isinstance(event, (Allocation, Release)) for event in events) // _SAMPLES) or 1
        self._heard = 0
        for at, event in enumerate(events):
            self._hear(at, event)

    def _hear(self, at: int, event: object) -> None:
        if isinstance(event, Release):
            self._released(at, event)
        elif isinstance(event, Allocation) and event.device == self._device:
            self._allocated(at, event)
        elif isinstance(event, Use):
            self._lent(event)
        elif isinstance(event, Copy):
            if event.kind in WAITS:
                self.allocator.await_streams()
        elif isinstance(event, Mark):
            self.marks.append((at, event.name))
            if event.name == "step-end":
                # A host that never waits may be ahead by about a step.
                self.allocator.await_streams()
                self.steps.append(self.allocator.allocated)

    def _released(self, at: int, event: Release) -> None:
        address, kind, _ = self._addresses.pop(event.id, (0, "", 0))
        self._kinds[kind] -= self.sizes.get(event.id, 0)
        self.allocator.free(address)
        if self.samples:
            self._sampled(at, self.samples[-1].phase)

    def _lent(self, event: Use) -> None:
        address, _, stream = self._addresses.get(event.id, (0, "", event.stream))
        if stream != event.stream:
            self.allocator.lend(address)

    def _allocated(self, at: int, event: Allocation) -> None:
        allocator, kind = self.allocator, self._kind(event)
        most = allocator.peak_allocated
        address = allocator.malloc(event.size, event.stream)
        self._addresses[event.id] = address, kind, event.stream
        size = self.sizes[event.id] = allocator.size_at(address)
        self._kinds[kind] += size
        if allocator.peak_allocated > most:
            self.peak_at = at
        if allocator.refused is not None and self.refused is None:
            self.refused = Refused(at, event, allocator.refused)
        self.phases[event.phase] = max(allocator.allocated, self.phases.get(event.phase, 0))
        self._sampled(at, event.phase)

    def _sampled(self, at: int, phase: str) -> None:
        """Keep the greatest of each stretch: as many as a picture has room for."""
        now, begins = self.allocator.allocated, self._heard % self._stretch == 0
        self._heard += 1
        if not begins and now <= self.samples[-1].bytes:
            return
        kinds = {kind: size for kind, size in self._kinds.items() if size}
        self.samples[len(self.samples) - (not begins) :] = [Sample(at, now, phase, self.allocator.reserved, kinds)]


class Live(NamedTuple):
    """An allocation that is there at the peak, with the bytes that its block takes."""

    allocation: Allocation
    bytes: int


def live_at(events: list[Any], device: int, replayed: Replay) -> list[Live]:
    """Return what is allocated when the peak is made; the bytes of all are the peak."""
    at, live = replayed.peak_at, dict[int, Allocation]()
    for event in events[: 0 if at is None else at + 1]:
        if isinstance(event, Release):
            live.pop(event.id, None)
        elif isinstance(event, Allocation) and event.device == device:
            live[event.id] = event
    return [Live(event, replayed.sizes[number]) for number, event in live.items()]


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
