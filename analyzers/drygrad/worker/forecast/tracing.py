"""Writes the trace of a program: what is allocated and released, by which line, in which phase, and what for."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, ClassVar

import torch

from drygrad.worker.forecast import columns, in_flight, pipelines, report
from drygrad.worker.forecast.changes import applied
from drygrad.worker.forecast.changes.change import Change
from drygrad.worker.forecast.changes.seen import Seen
from drygrad.worker.forecast.collectives import Collectives
from drygrad.worker.forecast.events import (
    BACKWARD,
    FORWARD,
    GRADIENTS,
    INPUTS,
    PHASES,
    RECOMPUTE,
    Allocation,
    Copy,
    Mark,
    Operation,
    Release,
    Site,
    Trace,
    Use,
)
from drygrad.worker.forecast.growth import rises
from drygrad.worker.forecast.owners import Owned, Owners, parts_of
from drygrad.worker.forecast.results import Known
from drygrad.worker.forecast.surface import patched
from drygrad.worker.forecast.unknown import Unknown
from drygrad.worker.forecast.virtual import Virtual
from drygrad.worker.lines import Instruction
from drygrad.worker.reading import dtype_text, storage_of
from drygrad.worker.run import Instrument, Place, Run

HOST = -1
"""The device of what is allocated on the host: it counts where a program keeps nothing on a GPU."""
_SIMULATION = "drygrad.worker.devices.sim.memory"
_DEVICE = "drygrad.worker.devices.sim"
_STREAMS = "drygrad.worker.devices.sim.cuda_api.streams"
_BUCKET = GRADIENTS, "a bucket of DistributedDataParallel"
_TO_DEVICE = ("aten::_to_copy", "aten::copy_")
_current_node: Any = torch._C._current_autograd_node


class _Held(weakref.ref):  # pyright: ignore[reportMissingTypeArgument]
    """A storage on the host that lives."""

    __slots__ = ("address", "id")
    id: int
    address: int


class Tracing(Instrument):
    """Follows a program without memory from one allocation to the next."""

    name: ClassVar[str] = "forecast"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.trace = Trace()
        self.unknown = Unknown(self._site, self._text)
        self.virtual = Virtual(self._made, self._computed)
        self.unknown.serve(self.virtual)
        self.virtual.compiled = self._is_compiled
        self.virtual.waited = self._waited
        self.virtual.special["aten::record_stream"] = self._used
        run.rises = lambda: rises(self.trace)
        self.collectives = Collectives(self.virtual)
        self.collectives.serve()
        self.owners = Owners(run.lines)
        self.changes: list[Change] = []
        """What is different about the program; the first takes note of what could be."""
        self.environment: dict[str, str] = {}
        self.failed: str | None = None
        self._at: dict[int, int] = {}
        """The allocation at each address."""
        self._emptied: dict[int, int] = {}
        """The last allocation at the addresses of storages that have given their memory back."""
        self._host: dict[int, _Held] = {}
        self._next = 0
        self._optimizers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._sites: dict[Instruction, Site | None] = {}
        self._stream_of: Callable[[int], int] = lambda _: 0

    @contextmanager
    def virtually(self) -> Generator[None]:
        """Let all operations inside the block be executed without memory."""
        columns.install()
        pipelines.install(self.unknown.assume)
        with ExitStack() as left:
            simulated: Any = sys.modules.get(_SIMULATION)
            if simulated is not None and self.run.device == "sim":
                simulated.watcher = self
                left.callback(setattr, simulated, "watcher", None)
                self._stream_of = sys.modules[_STREAMS].number
                device: Any = sys.modules[_DEVICE]
                device.on_sync = self._heard
                left.callback(setattr, device, "on_sync", None)
            left.enter_context(patched(self.virtual, self.unknown))
            left.enter_context(self.owners.watching(self._settle, self._number_of, self._has_ranks))
            self.changes = left.enter_context(applied([Seen.word, *self.run.plan["forecast"].get("changes", ())]))
            left.enter_context(self.virtual)
            left.callback(self._leave)
            yield

    def _is_compiled(self, name: str) -> bool:
        if self.run.compiles and name == "flex_attention":
            self.unknown.assume(f"`{name}` was taken to be compiled into one kernel")
        return self.run.compiles

    def _has_ranks(self) -> bool:
        return self.run.world > 1

    def _leave(self) -> None:
        """Keep what the process is told while the program runs: settings of the allocator among it."""
        self.environment = dict(os.environ)

    def taken(self, size: int, address: int, device: int) -> None:
        """Hear of memory that is taken on the simulated device."""
        self._allocated(size, address, device)

    def released(self, address: int) -> None:
        """Hear that memory on the simulated device is free."""
        known = self._at.pop(address, None)
        if known is not None:
            self.trace.events.append(Release(known))

    def resized(self, size: int, address: int, device: int) -> None:
        """Hear of a storage that gives its memory back, or takes it again: it is for the same then."""
        self._emptied[address] = self._at.get(address, self._emptied.get(address, -1))
        self.released(address)
        if size:
            self._allocated(size, address, device)
            before, now = self._emptied.pop(address), self._at[address]
            if before in self.trace.kinds:
                self.trace.kinds[now] = self.trace.kinds[before]
                self.owners.names[now] = self.owners.names.get(before, "")

    def used(self, address: int, stream: int) -> None:
        """Hear that a stream uses memory on the simulated device."""
        number = self._at.get(address)
        if number is not None:
            self.trace.events.append(Use(number, stream))

    def _used(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        storage = storage_of(args[0])
        if storage is not None:
            self.used(storage.data_ptr(), args[1].stream_id)

    def _heard(self, kind: str, operation: str) -> None:
        if kind == "sync":
            self._waited()

    def _waited(self) -> None:
        """Hear that the host waits for the device."""
        self.trace.events.append(Copy("sync", 0, self._site(), self._phase()))

    def _made(self, tensor: torch.Tensor) -> None:
        if tensor.is_cuda:
            sys.modules[_SIMULATION].take(tensor, tensor.get_device())
            return
        storage = storage_of(tensor)
        if storage is None or not storage.nbytes() or storage.data_ptr() in self._at:
            return
        address: int = storage.data_ptr()
        held = _Held(storage, self._left)
        held.address, held.id = address, self._next
        self._host[address] = held
        self._allocated(storage.nbytes(), address, HOST)

    def _left(self, held: Any) -> None:
        if self._host.get(held.address) is held:
            del self._host[held.address]
            self.released(held.address)

    def _allocated(self, size: int, address: int, device: int) -> None:
        number = self._next
        self._next += 1
        phase, name = self._phase(), self.virtual.name or "resize_"
        self._at[address] = number
        stream = self._stream_of(device) if device != HOST else 0
        self.trace.events.append(Allocation(number, size, self._site(), phase, name, device, stream))
        known = _BUCKET if self.run.bucketing else in_flight.buffer() if self._has_ranks() else None
        if known is not None:
            self.trace.kinds[number], self.owners.names[number] = known
        elif phase == FORWARD and self.virtual.name and self._is_given():
            self.trace.kinds[number] = INPUTS

    def _is_given(self) -> bool:
        """Say whether the operation in flight makes something of nothing, or copies it from the host."""
        op = self.run.op
        if op is None:
            return False
        tensors = op.tensors()
        return not tensors or (op.name in _TO_DEVICE and all(t.device.type == "cpu" for t in tensors))

    def _computed(self, name: str, known: Known, tensors: list[torch.Tensor], device: torch.device) -> None:
        devices = {tensor.device for tensor in tensors}
        on_device = [device for device in devices if device.type == "cuda"]
        index = on_device[0].index or 0 if on_device else HOST
        site, phase = self._site(), self._phase()
        if name in _TO_DEVICE and len({device.type, *(each.type for each in devices)}) > 1:
            to = tensors[0].device if name == "aten::copy_" else device
            moved = tensors[-1].numel() * tensors[-1].element_size()
            self.trace.events.append(Copy("h2d" if to.type == "cuda" else "d2h", moved, site, phase))
            return
        read = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        widest = max(tensors, key=lambda tensor: tensor.numel(), default=None)
        dtype = dtype_text(widest.dtype) if widest is not None else "float32"
        self.trace.events.append(Operation(name, known.flops, read, known.bytes, dtype, site, phase, index))

    def _phase(self) -> str:
        op = self.run.op
        if op is None and self.run.phase == FORWARD and _current_node() is not None:
            return RECOMPUTE if torch.is_grad_enabled() else BACKWARD
        if op is not None and op.phase in PHASES:
            # A checkpoint records what it calls again; the code of a custom backward is part of the backward pass.
            return BACKWARD if op.phase == RECOMPUTE and not torch.is_grad_enabled() else op.phase
        return self.run.phase

    def _site(self) -> Site | None:
        op = self.run.op
        instruction = op.instruction if op is not None and self.virtual.name else self.run.lines.here(2)
        if instruction is None:
            node = _current_node()  # what hooks of a backward pass gather belongs to where it has come to
            instruction = self.run.lines.of_node(node) if node is not None else None
        if instruction is None:
            return None
        if instruction not in self._sites:
            place = self.run.lines.place(instruction)
            self._sites[instruction] = Site(place.path, place.line) if place else None
        return self._sites[instruction]

    def _text(self, site: Site) -> str:
        lines = self.run.lines.source(site.path) or []
        return lines[site.line - 1] if 0 < site.line <= len(lines) else ""

    def _number_of(self, tensor: Any) -> int | None:
        """Return the allocation that a tensor lies in."""
        storage = storage_of(tensor) if isinstance(tensor, torch.Tensor) else None
        return self._at.get(storage.data_ptr()) if storage is not None else None

    def begins(self, names: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        """Know the target's arguments for inputs."""
        self._settle()

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Learn what is kept for backward, and by which lines."""
        self._settle()
        self.owners.keep(roots, self._number_of)
        self.owners.kept.update(self._at.values())
        self._mark("backward", place)

    def backward_ends(self, error: BaseException | None) -> None:
        """Learn which memory holds gradients."""
        self._settle()
        self._mark("backward-end", None)

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Learn what an optimizer changes."""
        self.owners.optimizers.add(optimizer)
        self._settle(self.owners.of_optimizer(optimizer))
        self._mark("step", place, optimizer)

    def step_ends(self, optimizer: Any) -> None:
        """Learn which memory holds the states of an optimizer."""
        self._settle(self.owners.of_optimizer(optimizer))
        self._mark("step-end", None, optimizer)

    def returned(self, value: Any, place: Place | None) -> None:
        """Learn what is held when the target returns."""
        self._settle()

    def _mark(self, name: str, place: Place | None, optimizer: Any = None) -> None:
        number = self._optimizers.setdefault(optimizer, len(self._optimizers)) if optimizer is not None else 0
        self.trace.events.append(Mark(name, Site(place.path, place.line) if place else None, number))

    def _settle(self, owned: Iterable[Owned] | None = None) -> None:
        """Say of allocations what they are: those that are owned by now, or some of them that have changed.

        After a step only those of its optimizer are asked for: a program may have one for each parameter.
        """
        for kind, tensor, name in self.owners.all() if owned is None else owned:
            for part in parts_of(tensor):
                number = self._number_of(part)
                if number is not None:
                    self.trace.kinds[number] = kind
                    self.owners.names[number] = name

    def finish(self) -> None:
        """Replay the trace, and tell what it comes to."""
        self._settle()
        self.run.result["forecast"] = report.told(self, self.run)
