"""Where a tensor comes from: the lines that led to its making, and what it has its device and its dtype from."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, cast

import torch

from drygrad.worker.explain.blame import COMPREHENSIONS
from drygrad.worker.ledger import Held, Joined, Origin, Roots
from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.naming import locals_of, parts
from drygrad.worker.reading import address_of
from drygrad.worker.watch import Op

_make = cast("Callable[..., Any]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""Makes a named tuple in a third of the time, for what is made at each operation."""
_LINES = 8
_LOOKS = 16
_COPIES = frozenset({"aten::_to_copy", "aten::clone", "aten::lift_fresh"})


class Descent:
    """Follows devices and dtypes from tensor to tensor; ``held`` is what is known of memory, by its address."""

    def __init__(self, lines: Lines, held: Mapping[int, Held]) -> None:
        self._lines = lines
        self._held = held
        self.within = False
        """Whether the target has been called."""
        self._looked: Counter[Instruction] = Counter()
        self._aware: dict[Instruction, int | None] = {}
        self._copies: Counter[Instruction] = Counter()
        self._left: dict[int, tuple[Origin, Instruction]] = {}
        """By the identity of the origin of a device: it, and the line that has moved something else beside it."""

    def enter(self, held: Held, op: Op, tensor: torch.Tensor, *, from_nothing: bool) -> None:
        """Say what memory that an operation has made comes from."""
        # On the path of every operation: one pass over the operands, and roots are shared where they are the same.
        # What backward and an optimizer compute follows the devices of what the forward pass has made.
        copies = op.name in _COPIES
        if op.phase in ("backward", "optimizer") and not from_nothing and not copies:
            made = _make(Origin, (op.instruction, op.name, False, (), None, self.within))
            held.origin, held.roots = made, _make(Roots, (made, made))
            return
        made = self._origin(op, from_nothing)
        given: Any = None
        first: Held | None = None
        device = dtype = None
        for operand in op.tensors():
            known = self._held.get(address_of(operand))
            if known is not None:
                if first is None:
                    given, first = operand, known
                if device is None and operand.device == tensor.device:
                    device = known.roots
                if dtype is None and operand.dtype is tensor.dtype and not _is_cell(operand):
                    dtype = known.roots
        held.origin = made
        if copies:
            self._copied(held, op, tensor, given, first)
        if device is not None and device is dtype:
            held.roots = device
        else:
            held.roots = _make(Roots, (device.device if device else made, dtype.dtype if dtype else made))
        if first is not None and not (given.is_nested or tensor.is_nested) and given.shape == tensor.shape:
            if first.flat or was_flattened(given):
                held.flat = True
            if first.joined is not None:
                held.joined = first.joined
        if op.name == "aten::cat":
            shapes = tuple(tuple(operand.shape) for operand in op.tensors())
            held.joined = Joined(op.instruction, int(op.argument("dim")) % max(tensor.dim(), 1), shapes)

    def _copied(self, held: Held, op: Op, tensor: torch.Tensor, given: Any, first: Held | None) -> None:
        """Follow a copy to what it was made of; a move takes its origin along."""
        held.source = first
        if op.name == "aten::_to_copy" and first is not None:
            held.origin = first.origin
            if tensor.device.type != "cpu":
                first.moved = True
                self._leave_behind(op.instruction, given)

    def left_behind(self, tensor: torch.Tensor) -> Instruction | None:
        """Return the line of a function that had a host tensor at hand, and moved another to the accelerator."""
        held = self._held.get(address_of(tensor))
        found = self._left.get(id(held.roots.device)) if held is not None else None
        return found[1] if found is not None else None

    def _leave_behind(self, here: Instruction | None, moved: torch.Tensor) -> None:
        """Note what a function leaves on the host while it moves something; looked at a few times for each line."""
        if here is None or self._copies[here] >= _LOOKS:
            return
        self._copies[here] += 1
        for frame in self._frames():
            if frame.f_code.co_name == "<module>":
                return
            at = Instruction(frame.f_code, frame.f_lasti)
            for beside in _tensors_of(frame):
                known = (
                    self._held.get(address_of(beside)) if beside is not moved and beside.device.type == "cpu" else None
                )
                if known is not None:
                    self._left.setdefault(id(known.roots.device), (known.roots.device, at))
            if frame.f_code.co_name not in COMPREHENSIONS:
                return

    def _origin(self, op: Op, from_nothing: bool) -> Origin:
        here = op.instruction
        if here is None or op.phase == "backward" or not (from_nothing or op.name in _COPIES):
            return _make(Origin, (here, op.name, from_nothing, (), None, self.within))
        frames = self._frames()
        lines = tuple(Instruction(frame.f_code, frame.f_lasti) for frame in frames)
        return Origin(here, op.name, from_nothing, lines, self._awareness(here, frames), self.within)

    def _frames(self) -> list[FrameType]:
        """Return the user's frames, the innermost first."""
        found: list[FrameType] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and len(found) < _LINES:
            if self._lines.is_user(frame.f_code):
                found.append(frame)
            frame = frame.f_back
        return found

    def _awareness(self, here: Instruction, frames: list[FrameType]) -> int | None:
        """Return the innermost frame that has the accelerator at hand; looked at a few times for each line."""
        self._looked[here] += 1
        if self._looked[here] <= _LOOKS:
            self._aware[here] = next((number for number, frame in enumerate(frames) if _is_aware(frame)), None)
        return self._aware[here]


def _tensors_of(frame: FrameType) -> Iterator[torch.Tensor]:
    """Yield the tensors that a function has names for, those in lists, tuples and dicts included."""
    for value in locals_of(frame).values():
        held = parts(cast("object", value)) if isinstance(value, (list, tuple, dict)) else [("", value)]
        yield from (item for _, item in held if isinstance(item, torch.Tensor))


def was_flattened(tensor: torch.Tensor) -> bool:
    """Say whether a tensor is a view of two dimensions of one that has more."""
    base = tensor._base
    return tensor.dim() == 2 and base is not None and base.dim() > 2 and base.numel() == tensor.numel()


def _is_cell(tensor: torch.Tensor) -> bool:
    """Say whether a tensor is one number of a table: its dtype is that of all the columns, not of its own."""
    base = tensor._base if tensor.dim() == 0 else None
    return base is not None and base.dim() > 1


def _is_aware(frame: FrameType) -> bool:
    """Say whether a function was given something that lives on an accelerator, or a device that is one."""
    code = frame.f_code
    values = locals_of(frame)
    names = values if code.co_name == "<module>" else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(_is_there(values.get(name), 2) for name in names)


def _is_there(value: object, depth: int) -> bool:
    if isinstance(value, torch.Tensor):
        return value.device.type not in ("cpu", "meta")
    if isinstance(value, torch.nn.Module):
        return any(p.device.type not in ("cpu", "meta") for p in _first(value))
    if isinstance(value, (str, torch.device)):
        return str(value).startswith("cuda")
    return depth > 0 and any(_is_there(part, depth - 1) for _, part in parts(value))


def _first(module: torch.nn.Module) -> list[torch.Tensor]:
    """Return a parameter and a buffer of a module."""
    if "_parameters" not in module.__dict__:  # its constructor has not run yet
        return []
    return [
        *(
            held
            for held in (next(torch.nn.Module.parameters(module), None), next(module.buffers(), None))
            if held is not None
        )
    ]
