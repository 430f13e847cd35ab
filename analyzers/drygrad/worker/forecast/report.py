"""What a forecast says: the peak, what makes it by phase, kind and line, the tensors that count, whether it fits."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Protocol

from drygrad.worker.forecast import assumed, replay
from drygrad.worker.forecast.allocator_settings import settings_of
from drygrad.worker.forecast.changes.change import Change
from drygrad.worker.forecast.changes.seen import Seen
from drygrad.worker.forecast.collectives import Collectives
from drygrad.worker.forecast.events import (
    ACTIVATIONS,
    FORWARD,
    KINDS,
    RECOMPUTE,
    TEMPORARIES,
    Allocation,
    Mark,
    Operation,
    Site,
    Trace,
)
from drygrad.worker.forecast.gpu import Gpu
from drygrad.worker.forecast.growth import Growth, growth
from drygrad.worker.forecast.owners import Keeper, Owners
from drygrad.worker.forecast.roofline import roofline
from drygrad.worker.forecast.unknown import Unknown
from drygrad.worker.run import Run

HOST = -1
_TENSORS = 10
_LINES = 900
_MARKS = 1000
_STEPS = 1000


class Traced(Protocol):
    """What is known of a program that was followed."""

    trace: Trace
    owners: Owners
    unknown: Unknown
    changes: list[Change]
    environment: dict[str, str]
    collectives: Collectives


def told(traced: Traced, run: Run) -> dict[str, Any]:
    """Return the forecast as it crosses the wire."""
    trace, unknown, environment = traced.trace, traced.unknown, traced.environment
    asked = replay.devices(trace)
    on_gpu = {device: size for device, size in asked.items() if device != HOST}
    device = max(on_gpu, key=lambda one: on_gpu[one]) if on_gpu else HOST
    wanted: dict[str, Any] = run.plan["forecast"]
    gpu = Gpu.of(wanted["gpu"]) if wanted["gpu"] else None
    communicators = len(traced.collectives.groups) if run.world > 1 else 0
    taken = assumed.beside(gpu, communicators, environment) if gpu else None
    limit = max(0, gpu.memory - taken) if gpu and taken else None
    events = replay.with_workspaces(trace, gpu, environment)
    teller = _Teller(trace, traced.owners, run)
    replayed = replay.Replay(events, device, limit, settings_of(environment), teller.kind)
    live = replay.live_at(events, device, replayed)
    peak = events[replayed.peak_at] if replayed.peak_at is not None else None
    step = _last_step(trace)
    bound = roofline(step or trace.events, gpu, device) if gpu is not None else None
    return {
        "device": "cpu" if device == HOST else "cuda",
        "peak_allocated": replayed.allocator.peak_allocated,
        "peak_reserved": replayed.allocator.peak_reserved,
        "context": taken,
        "ranks": run.world,
        "communicators": communicators,
        "at_least": unknown.at_least,
        "fits": replayed.refused is None if gpu else None,
        "peak": teller.event(peak) if peak is not None else None,
        "refused": teller.refused(replayed.refused),
        "phases": replay.ordered(replayed.phases),
        "kinds": teller.kinds(live),
        "by_line": teller.by_line(live),
        "tensors": teller.tensors(live),
        "steps": replayed.steps[-_STEPS:],
        "grows": teller.grows(growth(trace, device)),
        "over_time": [sample._asdict() for sample in replayed.samples],
        "peak_at": replayed.peak_at,
        "marks": [{"at": at, "name": name} for at, name in replayed.marks[:_MARKS]],
        "assumptions": assumed.sentences(unknown.assumptions, trace, communicators, environment, run),
        "time": {**bound.as_wire(), "of": "a step" if step else "all of it"} if bound is not None else None,
        "memory": gpu.memory if gpu else None,
        "flops": _computed(trace),
        "changed": {change.word: change.touched for change in traced.changes[1:]},
        "seen": next((change.as_wire() for change in traced.changes if isinstance(change, Seen)), None),
    }


def _last_step(trace: Trace) -> list[Any]:
    """Return what happens between the last two steps of an optimizer; nothing where there are no two."""
    ends = [at for at, event in enumerate(trace.events) if isinstance(event, Mark) and event.name == "step-end"]
    return trace.events[ends[-2] + 1 : ends[-1] + 1] if len(ends) > 1 else []


def _computed(trace: Trace) -> int:
    """Return the floating point operations of products, for each backward pass."""
    passes = sum(isinstance(event, Mark) and event.name == "backward" for event in trace.events)
    return sum(event.flops for event in trace.events if isinstance(event, Operation)) // max(1, passes)


class _Teller:
    """Puts allocations into words."""

    def __init__(self, trace: Trace, owners: Owners, run: Run) -> None:
        self._trace, self._owners, self._run = trace, owners, run

    def event(self, allocation: Allocation) -> dict[str, Any]:
        """Return one allocation."""
        return {
            **_place(allocation.site),
            "phase": allocation.phase,
            "operation": allocation.operation,
            "bytes": allocation.size,
        }

    def refused(self, refused: replay.Refused | None) -> dict[str, Any] | None:
        """Return the first allocation that does not fit."""
        if refused is None:
            return None
        return {**self.event(refused.allocation), "allocated": refused.refusal.allocated, "at": refused.at}

    def grows(self, found: Growth | None) -> dict[str, Any] | None:
        """Return what each pass leaves behind, with the line that most of it comes from."""
        return {**self.event(found.most), "bytes": found.bytes} if found is not None else None

    def kind(self, allocation: Allocation) -> str:
        """Return what an allocation is for."""
        known = self._trace.kinds.get(allocation.id)
        if known is not None:
            return known
        owners = self._owners
        if allocation.id in owners.keepers or allocation.phase == RECOMPUTE:
            return ACTIVATIONS
        if allocation.id in owners.kept and allocation.phase == FORWARD:
            return ACTIVATIONS
        return TEMPORARIES

    def kinds(self, live: list[replay.Live]) -> dict[str, int]:
        """Return what there is of each kind at the peak."""
        found: defaultdict[str, int] = defaultdict(int)
        for allocation, size in live:
            found[self.kind(allocation)] += size
        return {kind: found[kind] for kind in KINDS if kind in found}

    def by_line(self, live: list[replay.Live]) -> list[dict[str, Any]]:
        """Return the bytes of each line and kind, the most first; all of them are the peak."""
        rows: defaultdict[tuple[Site | None, str], int] = defaultdict(int)
        for allocation, size in live:
            rows[allocation.site, self.kind(allocation)] += size
        ranked = sorted(rows.items(), key=lambda row: -row[1])
        told = [{**_place(site), "kind": kind, "bytes": size} for (site, kind), size in ranked[:_LINES]]
        rest = sum(size for _, size in ranked[_LINES:])
        return [*told, {**_place(None), "kind": TEMPORARIES, "bytes": rest}] if rest else told

    def tensors(self, live: list[replay.Live]) -> list[dict[str, Any]]:
        """Return the tensors that take most, with the line that keeps each; those that are alike as one."""
        alike: defaultdict[tuple[object, ...], list[replay.Live]] = defaultdict(list)
        for one in live:
            allocation = one.allocation
            keeper, name = self._owners.keepers.get(allocation.id), self._owners.names.get(allocation.id)
            why = (keeper.instruction, keeper.operation) if keeper else None
            alike[
                allocation.site, allocation.operation, allocation.phase, one.bytes, self.kind(allocation), why, name
            ].append(one)
        largest = sorted(alike.values(), key=lambda each: -sum(one.bytes for one in each))[:_TENSORS]
        return [{**self._tensor(each[0]), "count": len(each)} for each in largest]

    def _tensor(self, one: replay.Live) -> dict[str, Any]:
        keeper = self._owners.keepers.get(one.allocation.id)
        return {
            **self.event(one.allocation),
            "bytes": one.bytes,
            "kind": self.kind(one.allocation),
            "name": self._owners.names.get(one.allocation.id),
            "kept_by": self._keeping(keeper) if keeper is not None else None,
        }

    def _keeping(self, keeper: Keeper) -> dict[str, Any]:
        place = self._run.lines.place(keeper.instruction)
        return {**_place(Site(place.path, place.line) if place else None), "operation": keeper.operation}


def _place(site: Site | None) -> dict[str, Any]:
    return {"path": site.path if site else None, "line": site.line if site else None}
