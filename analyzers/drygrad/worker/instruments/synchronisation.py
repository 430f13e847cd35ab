"""Where the host waits for the device, and what is copied between them; copies that go there and back."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
import sys
import weakref
from collections import Counter, defaultdict
from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.lines import Instruction
from drygrad.worker.moves import Moves
from drygrad.worker.reading import storage_of
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.watch import Op

_ROUND_TRIP, _NEEDLESS = "DG206", "DG602"
_COPIES = frozenset({"aten::_to_copy", "aten::copy_"})
_WAITS = frozenset(
    "aten::" + name
    for name in (
        "_local_scalar_dense nonzero masked_select equal _unique2 unique_dim unique_consecutive bincount multinomial"
        " repeat_interleave _assert_scalar is_nonzero"
    ).split()
)
_INDEX = "aten::index"
_SYNCHRONIZE = "torch.cuda.synchronize"
_NEEDS_IT = re.compile(r"\btime\b|perf_counter|Stream\(|Event\(|non_blocking|distributed|CUDAGraph|timeit")
_OURS = ("drygrad.worker.instruments", "drygrad.worker.explain")


class Away(NamedTuple):
    """A host tensor that comes from the device: the copy's instruction, and whether it was computed with since."""

    copied: Instruction | None
    computed: bool
    storage: weakref.ref[Any]


class Synchronisation(Instrument):
    """Counts waits and copies by line: those of the device, or those that a run on the CPU would cause on one."""

    name: ClassVar[str] = "synchronisation"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._counts: Counter[tuple[str, int, str, str]] = Counter()
        self._waits: dict[Place, set[int]] = {}
        self._away: dict[int, Away] = {}
        self._trips: Counter[tuple[Place, Place]] = Counter()
        self._steps = 0
        self._moves = Moves()
        self._restore: Any = None

    def start(self) -> None:
        """Listen to the simulated device, or to ``torch.cuda.synchronize``."""
        self._moves.listen()
        if self.run.device == "sim":
            sim: Any = sys.modules.get("drygrad.worker.devices.sim")
            if sim is not None:
                sim.on_sync = self._heard
        elif self.run.device == "cuda":
            self._listen()

    def _listen(self) -> None:
        synchronize = torch.cuda.synchronize

        def heard(*args: Any, **kwargs: Any) -> None:
            self.synchronised("sync", _SYNCHRONIZE, self.run.lines.caller())
            synchronize(*args, **kwargs)

        torch.cuda.synchronize = heard
        self._restore = synchronize

    def _heard(self, kind: str, op: str) -> None:
        frame = sys._getframe(1)
        while frame is not None and not self.run.lines.is_user(frame.f_code):
            if frame.f_globals.get("__name__", "").startswith(_OURS):
                return
            frame = frame.f_back
        at = Instruction(frame.f_code, frame.f_lasti) if frame is not None else self.run.op and self.run.op.instruction
        self.synchronised(kind, op, self.run.lines.place(at or None))

    def synchronised(self, kind: str, op: str, place: Place | None) -> None:
        """Count a wait or a copy of the target's; the copies of a whole module count as one."""
        if place is not None and not self.run.probing and self._moves.is_first(kind, place):
            self._counts[place.path, place.line, kind, op] += 1
            if op == _SYNCHRONIZE:
                self._waits.setdefault(place, set()).add(self._steps)

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Leave out what a backward pass or an optimizer does, but for copies and waits."""
        name, device = func._schema.name, self.run.device
        if name in _COPIES:
            return True
        if device == "cpu":  # nothing is away from the device there
            return name in _WAITS or name == _INDEX
        return phase == "forward" or device != "sim"

    def after_op(self, op: Op, result: Any) -> None:
        """Follow copies to the host and back; on a device without a hook of its own, count by the table."""
        if op.name in _COPIES:
            self._copied(op, result)
        elif self.run.device != "sim" and op.phase != "optimizer" and _waits(op):
            self.synchronised("sync", op.name, self.run.lines.place(op.instruction))
        elif self._away and isinstance(result, torch.Tensor) and not result.is_cuda:
            source = next((away for away in map(self._away_of, op.tensors()) if away), None)
            if source:
                self._enter(result, source.copied, computed=True)

    def _copied(self, op: Op, result: Any) -> None:
        source = op.args[1] if op.name == "aten::copy_" else op.args[0]
        to_device, from_device = result.is_cuda, source.is_cuda
        if to_device == from_device:
            return
        if self.run.device != "sim":
            kind = "h2d" if to_device else "d2h"
            self.synchronised(kind, op.name, self.run.lines.place(op.instruction))
        if from_device:
            self._enter(result, op.instruction, computed=False)
        else:
            self._back(op, self._away_of(source))

    def _back(self, op: Op, away: Away | None) -> None:
        there, back = away and away.copied, op.instruction
        if away and away.computed and there and back and there.code is back.code and op.phase == "forward":
            places = self.run.lines.place(there), self.run.lines.place(back)
            if places[0] and places[1]:
                self._trips[places[0], places[1]] += 1

    def _away_of(self, tensor: torch.Tensor) -> Away | None:
        storage = storage_of(tensor)
        return self._away.get(storage._cdata) if storage is not None else None

    def _enter(self, tensor: torch.Tensor, copied: Instruction | None, *, computed: bool) -> None:
        storage = storage_of(tensor)
        if storage is not None:
            address = storage._cdata
            gone = weakref.ref(storage, lambda _: self._away.pop(address, None))
            self._away[address] = Away(copied, computed, gone)

    def step_ends(self, optimizer: Any) -> None:
        """Count the steps of training."""
        self._steps += 1

    def finish(self) -> None:
        """Add the rows, and report round trips and needless waits."""
        if self.run.device == "sim":
            sim: Any = sys.modules.get("drygrad.worker.devices.sim")
            if sim is not None:
                sim.on_sync = None
        if self._restore is not None:
            torch.cuda.synchronize = self._restore
        self._moves.end()
        self.run.result["syncs"] = self._rows()
        for (there, back), count in self._trips.items():
            self._report_trip(there, back, count)
        for place, steps in self._waits.items():
            if len(steps) >= 2 and not self._is_needed(place.path):
                count = self._counts[place.path, place.line, "sync", _SYNCHRONIZE]
                message = f"the host synchronizes with the device in every step ({count} times here) without need"
                self.run.report(Fault(_NEEDLESS, message, place, facts={"count": count}))

    def _rows(self) -> list[dict[str, Any]]:
        """Return a row for each line and kind, with the operations that caused it."""
        by_line: defaultdict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
        for (path, line, kind, op), count in sorted(self._counts.items()):
            by_line[path, line, kind][op] += count
        return [
            {"path": path, "line": line, "kind": kind, "op": ", ".join(ops), "count": sum(ops.values())}
            for (path, line, kind), ops in by_line.items()
        ]

    def _report_trip(self, there: Place, back: Place, count: int) -> None:
        times = "once" if count == 1 else f"{count} times"
        message = f"copied to the CPU and back ({times} in this run), with two copies and a sync each time"
        related = [("copied back here", back)] if there.line != back.line else []
        self.run.report(
            Fault(_ROUND_TRIP, message, there, related=related, facts={"count": count, "copies": 2 * count})
        )

    def _is_needed(self, path: str) -> bool:
        source = self.run.lines.source(path)
        return source is None or any(_NEEDS_IT.search(line) for line in source)


def _waits(op: Op) -> bool:
    """Say whether the host must wait for the device to know the operation's result, or the size of it."""
    if op.name == _INDEX:
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in op.args[1])
    return op.name in _WAITS
