"""How much memory is live: the peak, the lines that hold it, and whether it grows from step to step."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

import torch

from drygrad.worker.descent import Descent
from drygrad.worker.explain.chains import Chains
from drygrad.worker.explain.holders import find_holders, recorded
from drygrad.worker.forecast.allocator import reserved_for
from drygrad.worker.forecast.allocator_settings import settings_of
from drygrad.worker.graphs import leaves
from drygrad.worker.ledger import Held, Key, Ledger, Origin
from drygrad.worker.lines import Instruction
from drygrad.worker.reading import address_of, bytes_text, storage_of
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.watch import Op

_OUT_OF_MEMORY, _GROWS = "DG507", "DG508"
_COPY, _FROM_NUMBERS = "aten::_to_copy", "aten::lift_fresh"
_REPLAYED = 60_000
"""So many allocations and releases are replayed within a quarter of a second."""
_GRANULE = 512
_ROWS = 10
_NOTEWORTHY = 1 << 20
_COMPARED = 3
_PHASES = {"backward": "gradients", "optimizer": "optimizer state"}


class Memory(Instrument):
    """Follows every storage from the operation that made it to its end, without keeping it alive."""

    name: ClassVar[str] = "memory"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._device, self._host = Ledger(), Ledger()
        self._held: dict[int, Held] = {}
        self._fresh: dict[int, str] = {}
        self._instructions: dict[tuple[int, int], Instruction] = {}
        self._keys: dict[tuple[Instruction | None, str], Key] = {}
        self._step = 0
        self._parameters: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._parameters_known = False
        self._numbers: list[int] = []
        self._next_number: Any = torch._C._autograd._get_sequence_nr  # pyright: ignore
        self._growth: dict[int, list[Fault]] = {}
        self._chains: defaultdict[int, Chains] = defaultdict(Chains)
        self._descent = Descent(run.lines, self._held)
        run.origin_of, run.held_of, run.left_behind = self._origin_of, self._of, self._descent.left_behind
        run.allocated_at = self._allocated_at
        self._journal: list[tuple[int, int]] | None = []
        """The storages on the device with their bytes, in order; with none where they end. None: too many to replay."""
        self._leaves = self._left
        """Bound once, for it is handed to every storage."""

    @property
    def _ledger(self) -> Ledger:
        """The memory that counts: the device's; the host's where the program keeps nothing on a device."""
        return self._device if self._device.peak else self._host

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Leave out what makes no storage."""
        return _kind(func) is not None

    def after_op(self, op: Op, result: Any) -> None:
        """Enter the storages that the operation has made."""
        fresh = self._fresh.get(id(op.func))
        if fresh is None:
            fresh = self._fresh[id(op.func)] = _kind(op.func) or ""
        if isinstance(result, torch.Tensor):
            self._enter(op, result, fresh)
        elif isinstance(result, (list, tuple)):
            for item in cast("list[object]", result):
                if isinstance(item, torch.Tensor):
                    self._enter(op, item, fresh)

    def _enter(self, op: Op, tensor: torch.Tensor, kind: str) -> None:
        storage = storage_of(tensor)
        if storage is None:
            return
        address = storage._cdata
        if address in self._held:
            return
        held = Held(storage, self._leaves)
        held.address, held.size, held.born = address, storage.nbytes(), self._step
        held.ledger = self._host
        if tensor.is_cuda:
            held.size, held.ledger = -(-held.size // _GRANULE) * _GRANULE, self._device
        what, instruction = _PHASES.get(op.phase, kind), op.instruction
        held.key = self._keys.get((instruction, what)) or self._key(instruction, what)
        self._descent.enter(held, op, tensor, from_nothing=kind == "inputs")
        self._held[address] = held
        held.ledger.enter(held, op.phase)
        self._journalled(held, held.size)

    def _key(self, instruction: Instruction | None, what: str) -> Key:
        """Return what storages are counted by that an instruction makes; the same object each time."""
        code, offset = 0, 0
        if instruction is not None:
            code, offset = id(instruction.code), instruction.offset
            self._instructions[code, offset] = instruction
        key = self._keys[instruction, what] = (code, offset, what)
        return key

    def _left(self, held: Held) -> None:
        self._held.pop(held.address, None)
        held.ledger.leave(held)
        self._journalled(held, 0)

    def _origin_of(self, tensor: torch.Tensor) -> Origin | None:
        held = self._of(tensor)
        return held.origin if held else None

    def _allocated_at(self, tensor: torch.Tensor) -> Instruction | None:
        held = self._of(tensor)
        return self._instructions.get(held.key[:2]) if held else None

    def begins(self, names: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        """Take note that from here on it is the target that makes tensors."""
        self._descent.within = True

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Learn which storages are parameters: the leaves of the first graph."""
        if not self._parameters_known:
            self._learn(leaves(roots))

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Learn which storages are parameters, where no graph has told."""
        if not self._parameters_known:
            self._learn(parameter for group in optimizer.param_groups for parameter in group["params"])

    def _learn(self, parameters: Iterable[torch.Tensor]) -> None:
        self._parameters_known = True
        for held in {self._of(parameter) for parameter in parameters}:
            if held is not None:
                self._parameters[held.key[:2]] += held.size

    def _of(self, tensor: torch.Tensor) -> Held | None:
        return self._held.get(address_of(tensor))

    def step_ends(self, optimizer: Any) -> None:
        """Compare what is live after each step."""
        self._step += 1
        self._numbers.append(self._next_number())
        on_host, on_device = (ledger.step(id(optimizer), _COMPARED) for ledger in (self._host, self._device))
        kept = on_device if self._device.peak else on_host
        chains = self._chains[id(optimizer)]
        chains.follow(recorded(self.run.lines))
        if len(kept) >= _COMPARED:
            self._growth[id(optimizer)] = self._compare(kept, chains)

    def _compare(self, kept: list[dict[Key, int]], chains: Chains) -> list[Fault]:
        first, second, third = (sum(sizes.values()) for sizes in kept)
        growth = third - second if first < second < third else 0
        more = f"memory grows by {bytes_text(growth)} in every step: " if growth else ""
        holders = find_holders(self.run.lines, self._step_of, chains)
        if not holders and growth == second - first and growth >= _NOTEWORTHY:
            return [self._grown(growth, kept[1], kept[2])]
        return [
            Fault(holder.code, more + holder.reason, holder.place, facts={"holder": holder.name, "bytes": growth})
            for holder in holders
            if holder.is_graph or growth >= _NOTEWORTHY
        ]

    def _grown(self, growth: int, before: dict[Key, int], after: dict[Key, int]) -> Fault:
        key = max(after, key=lambda key: after[key] - before.get(key, 0))
        mine = bytes_text(after[key] - before.get(key, 0))
        message = f"memory grows by {bytes_text(growth)} in every step, {mine} of it allocated here"
        return Fault(_GROWS, message, self._place(key), facts={"bytes": growth})

    def _step_of(self, made: Any) -> int | None:
        node = made.grad_fn if isinstance(made, torch.Tensor) else made
        if node is not None:
            return bisect(self._numbers, node._sequence_nr())
        held = self._of(made)
        return held.born if held else None

    def explain(self, error: BaseException, place: Place | None) -> Fault | None:
        """Say what holds the memory that has run out, or that it was this allocation that took it all."""
        text = str(error)
        on_host = isinstance(error, MemoryError) or "can't allocate memory" in text
        if not isinstance(error, torch.OutOfMemoryError) and not on_host:
            return None
        wanted, rows = _wanted(text), self._rows(self._ledger.by_key)
        live = f"{bytes_text(self._ledger.live)} live"
        if wanted and (not rows or wanted >= rows[0][1]):
            message = f"out of memory: {bytes_text(wanted)} requested with {live}"
            related = [(f"{bytes_text(size)} of {kind}", held) for held, size, kind in rows[:1]]
            facts = {"bytes": wanted, "ranks": self._ranks()}
            return Fault(_OUT_OF_MEMORY, message, place, text, related=related, facts=facts)
        fault = self._holding(f"out of memory with {live}", rows, place)
        fault.detail = text
        fault.facts["ranks"] = self._ranks()
        if place:
            fault.related = [("the allocation that failed", place)]
        return fault

    def _ranks(self) -> list[int]:
        """Return how many dimensions the operands of the operation in flight have."""
        return [tensor.dim() for tensor in self.run.op.tensors()] if self.run.op is not None else []

    def _holding(self, what: str, rows: list[tuple[Place, int, str]], otherwise: Place | None) -> Fault:
        if not rows:
            return Fault(_OUT_OF_MEMORY, what, otherwise)
        place, size, kind = rows[0]
        message = f"{what}: this line holds the most, {bytes_text(size)} of {kind}"
        return Fault(_OUT_OF_MEMORY, message, place, facts={"bytes": size, "peak": self._ledger.peak})

    def finish(self) -> None:
        """Add the peak with its lines; compare it with the memory that the user's GPU has.

        Where there is a device, what the program keeps on the host is nothing that the GPU would have to hold.
        """
        for faults in self._growth.values():
            for fault in faults:
                self.run.report(fault)
        ledger = self._ledger
        rows = self._rows(ledger.at_peak())
        self.run.result["memory"] = {
            "device": "cuda" if ledger is self._device else "cpu",
            "peak_bytes": ledger.peak,
            "reserved": self._reserved() if ledger is self._device else None,
            "by_phase": ledger.by_phase,
            "by_line": [
                {"path": place.path, "line": place.line, "bytes": size, "what": kind} for place, size, kind in rows
            ],
            "steps": ledger.steps,
            "over_time": ledger.timeline.as_json(),
        }
        limit = self.run.plan.get("gpu_memory")
        counts = ledger is self._device or self.run.device == "cpu"
        if limit and counts and ledger.peak > limit:
            what = f"the peak of {bytes_text(ledger.peak)} exceeds the GPU's {bytes_text(limit)}"
            self.run.report(self._holding(what, rows, None))

    def _reserved(self) -> int | None:
        """Return the most that torch's allocator would take of the GPU; None where not all that it serves is known."""
        if self.run.device == "cuda":
            return torch.cuda.max_memory_reserved()
        return reserved_for(self._journal, settings_of(os.environ)) if self._journal else None

    def _journalled(self, held: Held, size: int) -> None:
        """Write down what torch's allocator would be asked for."""
        if self._journal is not None and held.ledger is self._device:
            self._journal.append((held.address, size))
            if len(self._journal) > _REPLAYED:
                self._journal = None

    def _rows(self, by_key: dict[Any, int]) -> list[tuple[Place, int, str]]:
        """Return the lines that hold most, with their bytes and what most of these are."""
        parameters = dict(self._parameters)
        lines: defaultdict[tuple[str, int], defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        places: dict[tuple[str, int], Place] = {}
        for key, size in by_key.items():
            place = self._place(key)
            if place is None or size <= 0:
                continue
            line = (place.path, place.line)
            places.setdefault(line, place)
            own = min(size, parameters.pop(key[:2], 0)) if key[2] in ("inputs", "activations") else 0
            lines[line]["parameters"] += own
            lines[line][key[2]] += size - own
        ranked = sorted(lines, key=lambda line: -sum(lines[line].values()))[:_ROWS]
        return [(places[line], sum(lines[line].values()), _most(lines[line])) for line in ranked]

    def _place(self, key: Key) -> Place | None:
        return self.run.lines.place(self._instructions.get(key[:2]))


def _wanted(text: str) -> int:
    """Return how many bytes an allocation asked for that failed; 0 if its message does not say."""
    found = re.search(r"[Tt]ried to allocate ([\d.]+) (bytes|[KMGT]iB)", text)
    if not found:
        return 0
    return int(float(found.group(1)) * 1024 ** ("b", "K", "M", "G", "T").index(found.group(2)[0]))


def _most(sizes: dict[str, int]) -> str:
    return max(sizes, key=lambda kind: sizes[kind])


def _kind(func: Any) -> str | None:
    """Say what a forward operation makes: inputs if it takes no tensor; None if it makes no storage."""
    schema = func._schema
    if schema.name == _FROM_NUMBERS:
        return "inputs"
    if all(returned.alias_info is not None for returned in schema.returns):
        return None
    takes = any("Tensor" in str(argument.type) for argument in schema.arguments)
    return "activations" if takes and schema.name != _COPY else "inputs"
