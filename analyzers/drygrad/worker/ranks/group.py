"""The process group of a rank at the table: every collective has the result that it has among so many ranks."""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work, _create_work_from_future  # type: ignore
from torch.distributed import distributed_c10d
from torch.futures import Future

from drygrad.worker.ranks.naming import chain_here, name_of_call
from drygrad.worker.ranks.notes import Notes
from drygrad.worker.ranks.seat import Seat
from drygrad.worker.reading import at_hand, quietly
from drygrad.worker.run import Run

NAME = "drygrad-ranks"
_DEALT = ("CUDA_VISIBLE_DEVICES", "SLURM_PROCID", "SLURM_LOCALID")
"""Variables of launches that may show each process a device of its own as the first one."""
_OPERATIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
_operators: Any = dist.ReduceOp
_world: Any = distributed_c10d._world  # type: ignore[attr-defined]
_Work: Any = Work
_Group: Any = dist.ProcessGroup
_backends: Any = dist.Backend


class Unsupported(RuntimeError):
    """The group cannot do what it is asked."""


class Groups:
    """Makes the groups of a rank, and counts those that have the same members."""

    def __init__(self, run: Run, seat: Seat, notes: Notes, blocks: set[int]) -> None:
        self.run = run
        self.notes = notes
        self.asked_for = True
        """Whether the program itself has begun the first one, so that its backend is the program's choice."""
        self.seat = seat
        self.members: list[int] = list(range(seat.world))
        """Of the group that is made next."""
        self._made: dict[tuple[int, ...], int] = {}
        self._blocks = blocks
        self._told: set[int] = set()
        _backends.register_backend(NAME, self._create, devices=["cpu", "cuda"])

    def passes(self) -> dict[str, int]:
        """Return how many passes the loops of the target's file have made, by their lines."""
        return {
            str(line): count for (path, line), count in self.notes.loops.passes.items() if path == self.run.lines.path
        }

    def new_blocks(self) -> list[int]:
        """Return the blocks of the target's file that have run since this was asked last."""
        new = self._blocks - self._told
        self._told |= new
        return sorted(new)

    def _create(self, store: Any, rank: int, size: int, timeout: Any) -> RankGroup:
        members = tuple(self.members)
        number = self._made[members] = self._made.get(members, -1) + 1
        group = RankGroup(self, rank, members, number)
        group.meet("init_process_group" if number == 0 and len(members) == self.seat.world else "new_group")
        return group


class RankGroup(_Group):
    """A group of ranks at the table."""

    def __init__(self, groups: Groups, rank: int, members: tuple[int, ...], made: int) -> None:
        super().__init__(rank, len(members))
        self._groups, self._members, self._made, self._own = groups, members, made, rank
        self._taking: list[_Taking] | None = None

    def size(self) -> int:
        """Return how many members there are."""
        return len(self._members)

    def rank(self) -> int:
        """Return which of them this is."""
        return self._own

    def getBackendName(self) -> str:
        """Return the name of the backend."""
        return NAME

    @property
    def _device_types(self) -> list[Any]:
        """The devices whose tensors the backend takes that the program has asked for."""
        named = str(_world.pg_map.get(self, ("",))[0])
        return [torch.device(name) for name in (("cuda",) if named == "nccl" else ("cpu", "cuda"))]

    def __repr__(self) -> str:
        """Write the group as errors of torch's speak of it."""
        return f"<ProcessGroup of ranks {[*self._members]}>"

    @property
    def group_name(self) -> str:
        """The name that the group is registered by."""
        return _world.pg_names[self]

    def _needs_its_own(self) -> bool:
        """Say whether the backend refuses ranks that share a device, of which there are enough on this machine."""
        backend = str(_world.pg_map.get(self, ("",))[0])
        if not self._groups.asked_for or backend not in ("nccl", "undefined"):
            return False
        if any(name in os.environ for name in _DEALT):
            return False
        return torch.cuda.device_count() >= self.size()

    def meet(
        self,
        op: str,
        tensors: Sequence[Any] = (),
        *,
        gives: bool = True,
        like: Sequence[Any] = (),
        operands: dict[str, Any] | None = None,
    ) -> list[list[Any]]:
        """Come to a collective with tensors; return those that each member has given, on the CPU.

        What others give is taken to be ``like`` these tensors, or like its own.
        """
        with quietly():
            arrival = self._arrival(op, tensors, operands)
            parts = [_bytes_of(tensor) for tensor in tensors] if gives else []
            given = self._groups.seat.meet(arrival, parts)
            self._groups.notes.met += len(self._members) == self._groups.seat.world
            like = [(tensor.dtype, tensor.shape) for tensor in (like or tensors)]
            return [[_tensor_of(part, *like[n]) for n, part in enumerate(one)] if one else [] for one in given]

    def _arrival(self, op: str, tensors: Sequence[Any], operands: dict[str, Any] | None) -> dict[str, Any]:
        run = self._groups.run
        frame = _main_frame()
        return {
            "op": op,
            "what": name_of_call(run.lines, frame, op),
            "group": [*self._members],
            "made": self._made,
            "chain": chain_here(run.lines, frame),
            "blocks": self._groups.new_blocks(),
            "stops": [[one["path"], one["line"], one["iterations"]] for one in run.result.get("truncated", ())],
            "passes": self._groups.passes(),
            "operands": {
                "shapes": [[*tensor.shape] for tensor in tensors],
                "dtypes": [str(tensor.dtype) for tensor in tensors],
                "devices": [str(tensor.device) for tensor in tensors],
                "own_device": self._needs_its_own(),
                **(operands or {}),
            },
        }

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce over all."""
        name = _operation(opts)
        if len(self._members) == self._groups.seat.world and self._groups.run.lines.is_engine(sys._getframe().f_back):
            self._groups.notes.reduced()
        given = self.meet("all_reduce", tensors, operands={"reduce": name, "alike": True})
        _write(tensors, [_reduced(name, [one[n] for one in given]) for n in range(len(tensors))])
        return _done(tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce for one member."""
        name, root = _operation(opts), _root(opts)
        given = self.meet("reduce", tensors, operands={"reduce": name, "root": root, "alike": True})
        if root == self._own:
            _write(tensors, [_reduced(name, [one[n] for one in given]) for n in range(len(tensors))])
        return _done(tensors)

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """Take one member's."""
        root = _root(opts)
        given = self.meet("broadcast", tensors, gives=root == self._own, operands={"root": root, "alike": True})
        _write(tensors, given[root])
        return _done(tensors)

    def barrier(self, opts: Any = None) -> Any:
        """Wait for all."""
        self.meet("barrier")
        return _done([])

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give each member's to all."""
        (into,), (own,) = outputs, inputs
        given = self.meet("all_gather", [own], operands={"outputs": [[*tensor.shape] for tensor in into]})
        _write(into, [_as(one[0], tensor) for one, tensor in zip(given, into)])
        return _done(outputs)

    def _allgather_base(self, output: Any, own: Any, opts: Any = None) -> Any:
        given = self.meet("all_gather", [own], operands={"alike": True})
        _write([output], [torch.cat([one[0].reshape(-1) for one in given]).reshape(output.shape)])
        return _done([output])

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do the same with several."""
        for output, own in zip(outputs, inputs):
            self._allgather_base(output, own)
        return _done(outputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give each member's to one."""
        root = _root(opts)
        (own,) = inputs
        given = self.meet("gather", [own], operands={"root": root, "alike": True})
        if root == self._own:
            _write(outputs[0], [one[0] for one in given])
        return _done(outputs)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give each member its part of what one has."""
        root = _root(opts)
        parts: list[Any] = inputs[0] if root == self._own else []
        like = [outputs[0]] * self.size()
        given = self.meet("scatter", parts, like=like, operands={"root": root, "outputs": [[*outputs[0].shape]]})
        _write(outputs, [given[root][self._own]])
        return _done(outputs)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Reduce parts, one for each."""
        name, parts = _operation(opts), inputs[0]
        given = self.meet("reduce_scatter", parts, operands={"reduce": name, "alike": True})
        _write(outputs, [_reduced(name, [one[self._own] for one in given])])
        return _done(outputs)

    def _reduce_scatter_base(self, output: Any, whole: Any, opts: Any = None) -> Any:
        name = _operation(opts)
        given = self.meet("reduce_scatter", [whole], operands={"reduce": name, "alike": True})
        reduced = _reduced(name, [one[0] for one in given]).reshape(-1)
        _write([output], [reduced.chunk(self.size())[self._own].reshape(output.shape)])
        return _done([output])

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Do the same with several."""
        for output, whole in zip(outputs, inputs):
            self._reduce_scatter_base(output, whole, opts)
        return _done(outputs)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Exchange parts, one for each."""
        shapes = [[*tensor.shape] for tensor in outputs]
        given = self.meet("all_to_all", inputs, operands={"outputs": shapes})
        _write(outputs, [_as(one[self._own], output) for one, output in zip(given, outputs)])
        return _done(outputs)

    def alltoall_base(self, output: Any, whole: Any, outgoing: Any, incoming: Any, opts: Any = None) -> Any:
        """Exchange parts of one tensor, of the sizes that are told, or equal ones."""
        sizes = [*incoming] if incoming else [len(whole) // self.size()] * self.size()
        parts = [part.contiguous() for part in whole.split(sizes)]
        wanted = [*outgoing] if outgoing else [len(output) // self.size()] * self.size()
        shapes = [[size, *output.shape[1:]] for size in wanted]
        given = self.meet("all_to_all", parts, operands={"outputs": shapes})
        pieces = [_as(one[self._own], output).reshape(shape) for one, shape in zip(given, shapes)]
        _write([output], [torch.cat(pieces)])
        return _done([output])

    all_to_all_single = alltoall_base

    def send(self, tensors: Any, to: int, tag: int = 0) -> Any:
        """Send to a member."""
        with quietly():
            arrival = self._arrival("send", tensors, {})
            self._groups.seat.post(
                self._members[to], f"{self._made}:{tag}", arrival, [_bytes_of(tensor) for tensor in tensors]
            )
        return _done(tensors)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        """Receive from a member, when that is waited for."""
        return self._take(tensors, self._members[source], tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Receive from whoever sends."""
        return self._take(tensors, None, tag)

    def _take(self, tensors: Any, source: int | None, tag: int) -> Any:
        work = _Taking(self, tensors, source, tag)
        if self._taking is not None:
            self._taking.append(work)
        return work

    def _start_coalescing(self, device: Any = None) -> None:
        self._taking = []

    def _end_coalescing(self, device: Any = None) -> Any:
        taking, self._taking = self._taking or [], None
        return _AllOf(taking)

    @property
    def supports_coalescing(self) -> bool:
        """Whether several may be begun at once."""
        return True


class _Taking(_Work):
    """A message that is awaited."""

    def __init__(self, group: RankGroup, tensors: Any, source: int | None, tag: int) -> None:
        super().__init__()
        self._group, self._tensors, self._source, self._tag = group, tensors, source, tag
        self._from: int | None = None

    def wait(self, timeout: Any = None) -> bool:
        """Wait for it."""
        if self._from is None:
            group = self._group
            with quietly():
                arrival = group._arrival("recv", self._tensors, {"source": self._source})
                tag = f"{group._made}:{self._tag}"
                self._from, parts = group._groups.seat.take(self._source, tag, arrival)
                _write(self._tensors, [_tensor_of(part, t.dtype, t.shape) for part, t in zip(parts, self._tensors)])
        return True

    def is_completed(self) -> bool:
        """Say whether it has come; asking is waiting."""
        return self.wait()

    def _source_rank(self) -> int:
        self.wait()
        return self._from or 0


class _AllOf(_Work):
    def __init__(self, works: list[_Taking]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: Any = None) -> bool:
        """Wait for all of them."""
        for work in self._works:
            work.wait()
        return True


def _main_frame() -> Any:
    """Return the frame of the main thread, which the user's program runs in: a backward may use others."""
    return sys._current_frames().get(threading.main_thread().ident or 0) or sys._getframe(1)


def _done(result: Any) -> Any:
    kind: Any = Future
    future = kind()
    future.set_result(result)
    return cast("Any", _create_work_from_future)(future)


def _operation(opts: Any) -> str:
    asked = getattr(opts, "reduceOp", opts)
    name = next((name for name in _OPERATIONS if asked is None or asked == getattr(_operators, name)), None)
    if name is None:
        raise Unsupported("a reduction of this kind")
    return name


def _root(opts: Any) -> int:
    return int(opts.rootRank) if opts is not None else 0


def _reduced(name: str, given: list[Any]) -> Any:
    if name in ("SUM", "AVG"):
        total = given[0].clone()
        for one in given[1:]:
            total += one
        return total / len(given) if name == "AVG" else total
    both: Any = {
        "PRODUCT": torch.mul,
        "MIN": torch.minimum,
        "MAX": torch.maximum,
        "BAND": torch.bitwise_and,
        "BOR": torch.bitwise_or,
        "BXOR": torch.bitwise_xor,
    }[name]
    total = given[0]
    for one in given[1:]:
        total = both(total, one)
    return total


def _as(given: Any, like: Any) -> Any:
    """Return a tensor of the receiver's shape, where the giver's had another of as many elements."""
    return given.reshape(like.shape) if given.numel() == like.numel() else given


def _write(tensors: Sequence[Any], values: Sequence[Any]) -> None:
    """Write results as a backend does: no version is counted."""
    with quietly():
        for tensor, value in zip(tensors, values):
            at_hand(tensor.data).copy_(value.reshape(tensor.shape))


def _bytes_of(tensor: Any) -> bytes:
    flat = at_hand(tensor.detach()).contiguous().reshape(-1)
    data = bytearray(flat.numel() * flat.element_size())
    if data:
        torch.frombuffer(data, dtype=torch.uint8).copy_(flat.view(torch.uint8))
    return bytes(data)


def _tensor_of(part: bytearray, dtype: Any, shape: Any) -> Any:
    if not part:
        return torch.empty(0, dtype=dtype, device="cpu")
    flat = torch.frombuffer(part, dtype=torch.uint8).view(dtype)
    return flat.reshape(shape) if flat.numel() == shape.numel() else flat
