"""What stays behind from step to step: memory that each pass of a training makes, and that no later one lets go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from drygrad.worker.forecast.events import STATES, Allocation, Mark, Release, Trace

_PASSES = 3
_NOTEWORTHY = 1 << 20


class Growth(NamedTuple):
    """By how much more is kept after each pass, and one of the allocations that have most of it."""

    bytes: int
    most: Allocation


def growth(trace: Trace, device: int) -> Growth | None:
    """Return what the last passes have left behind alike; None where nothing is, or too few were followed.

    What is asked for is counted: blocks that are used again have other sizes. And only what outlives the pass after its
    own, since the last batch with its gradients is there after each step.
    """
    ends = _ends_of_passes(trace)[-_PASSES:]
    if len(ends) < _PASSES:
        return None
    alive, totals = _alive_after(trace, device, ends)
    if not _is_rising(totals):
        return None
    older, newer = (_by_origin(one for one, made in alive if made == number) for number in (0, 1))
    left = {origin: min(_bytes(older[origin]), _bytes(found)) for origin, found in newer.items() if origin in older}
    if sum(left.values()) < _NOTEWORTHY:
        return None
    return Growth(sum(left.values()), newer[max(left, key=lambda origin: left[origin])][0])


def rises(trace: Trace) -> bool:
    """Say whether each of the last passes has left more behind than the one before, on any device.

    It takes one pass more to tell what grows if a pass makes it after its step.
    """
    ends = _ends_of_passes(trace)[-_PASSES:]
    devices = {event.device for event in trace.events if isinstance(event, Allocation)}
    return len(ends) == _PASSES and any(_is_rising(_alive_after(trace, device, ends)[1]) for device in devices)


def _is_rising(totals: list[int]) -> bool:
    first, second, third = totals
    return min(second - first, third - second) >= _NOTEWORTHY


def _ends_of_passes(trace: Trace) -> list[int]:
    """Return where the steps of the optimizer end that takes most of them, and is the last to do so in a pass."""
    steps: defaultdict[int, list[int]] = defaultdict(list)
    for at, event in enumerate(trace.events):
        if isinstance(event, Mark) and event.name == "step-end":
            steps[event.optimizer].append(at)
    return max(steps.values(), key=lambda ends: (len(ends), ends[-1])) if steps else []


def _alive_after(trace: Trace, device: int, ends: list[int]) -> tuple[list[tuple[Allocation, int]], list[int]]:
    """Return what is alive after the last pass, each with the pass that made it, and how much was after each."""
    alive: dict[int, tuple[Allocation, int]] = {}
    totals: list[int] = []
    allocated = 0
    for at, event in enumerate(trace.events[: ends[-1] + 1]):
        if isinstance(event, Release) and event.id in alive:
            allocated -= alive.pop(event.id)[0].size
        elif isinstance(event, Allocation) and event.device == device:
            alive[event.id] = event, len(totals)
            allocated += event.size
        elif at == ends[len(totals)]:
            totals.append(allocated)
    return [each for each in alive.values() if trace.kinds.get(each[0].id) != STATES], totals


def _by_origin(allocations: Iterable[Allocation]) -> dict[object, list[Allocation]]:
    found: defaultdict[object, list[Allocation]] = defaultdict(list)
    for one in allocations:
        found[one.site, one.operation, one.phase].append(one)
    return dict(found)


def _bytes(allocations: list[Allocation]) -> int:
    return sum(one.size for one in allocations)
