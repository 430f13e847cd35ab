"""What a call shows of its inputs' padding: masks, lengths, and the classes that an embedding calls padding."""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.experiments.held import Held
from drygrad.worker.experiments.trace import memory_of
from drygrad.worker.probe import tensors
from drygrad.worker.reading import is_readable, quietly
from drygrad.worker.run import Instrument, Run
from drygrad.worker.watch import Op

_HANDED_ON = frozenset(
    f"aten::{name}" for name in "_to_copy clone bitwise_not logical_not eq ne rsub sort index_select".split()
)
_COMPARED = frozenset({"aten::lt", "aten::le", "aten::gt", "aten::ge"})
_MAY_MASK = re.compile(r"mask|(^|_)(valid|pad(ding|ded)?s?)(_|$)")
_SAYS_SO = re.compile(r"attention_mask|(^|_)(valid|non_?pad|pad(ding|ded)?s?)(_|$)")
"""Names of masks that say of positions, and of nothing else, whether they are padding."""
_FEWEST = 3


def may_mark(held: Held) -> bool:
    """Say whether an input may be what says of others where they are padded."""
    counts = held.tensor.dim() > 0 and not (held.tensor.is_floating_point() or held.tensor.is_complex())
    return counts or _MAY_MASK.search(held.name.lower()) is not None


class Mark(NamedTuple):
    """What says which positions of a sequence are padding."""

    held: Held
    kind: str
    """``mask``, ``lengths``, or ``ids`` of an embedding that has a class for it."""
    padding: int = 0
    """The value that a mask, or ids, have there."""
    shown: bool = False
    """Whether its values are those of sequences of which some are padded."""


class Marks(Instrument):
    """Takes note of what the inputs of a call are used for."""

    name: ClassVar[str] = "marks"

    def __init__(self, run: Run, inputs: list[Held]) -> None:
        super().__init__(run)
        self.inputs = inputs
        self._of = {memory_of(held.tensor): held for held in inputs}
        self._positions: set[int] = set()
        """The memory of what counts positions."""
        self._alive: list[torch.Tensor] = []
        """What was followed, so that its memory is not given to something else."""
        self._used: set[str] = set()
        self._lengths: set[str] = set()
        self.ids: dict[str, int] = {}
        """The inputs that are classes of an embedding, and the one of these that is padding; -1 where none is."""

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for the forward pass."""
        return phase == "forward"

    def after_op(self, op: Op, result: Any) -> None:
        """Take note of the operands of an operation."""
        found = [self._of[key] for key in map(memory_of, op.tensors()) if key in self._of]
        self._used.update(held.name for held in found)
        if op.name == "aten::arange" or (op.name in _HANDED_ON and self._counts(op)):
            self._follow(result, None)
        if op.name == "aten::embedding" and (ids := self._of.get(memory_of(op.args[1]))) is not None:
            self.ids[ids.name] = int(op.argument("padding_idx"))
        if op.name == "aten::_pack_padded_sequence" or (op.name in _COMPARED and self._counts(op)):
            self._lengths.update(held.name for held in found)
        if op.name in _HANDED_ON and found:
            self._follow(result, found[0])

    def _counts(self, op: Op) -> bool:
        return any(memory_of(tensor) in self._positions for tensor in op.tensors())

    def _follow(self, result: Any, held: Held | None) -> None:
        for tensor in tensors(result):
            self._alive.append(tensor)
            if held is not None:
                self._of.setdefault(memory_of(tensor), held)
            else:
                self._positions.add(memory_of(tensor))

    def found(self) -> list[Mark]:
        """Return what marks padding, the surest first."""
        marks: list[Mark] = []
        for held in self.inputs:
            if held.name in self._used and is_readable(held.tensor):
                with quietly():
                    mark = _mask(held) or self._counted(held)
                marks += [mark] if mark is not None else []
        return marks or [*self._classes()]

    def _counted(self, held: Held) -> Mark | None:
        """Return lengths: whole numbers, one a sample, that packing or a comparison with positions reads."""
        tensor = held.tensor
        whole = not tensor.is_floating_point() and tensor.dtype is not torch.bool and tensor.dim() == 1
        if not whole or held.name not in self._lengths or not tensor.numel() or int(tensor.min()) < 1:
            return None
        return Mark(held, "lengths", shown=bool((tensor != tensor[0]).any()))

    def _classes(self) -> list[Mark]:
        found: list[Mark] = []
        for held in self.inputs:
            padding = self.ids.get(held.name, -1)
            if padding >= 0 and held.tensor.dim() == 2 and held.tensor.numel():
                with quietly():
                    last = held.tensor[:, -1] == padding
                    shown = bool(last.any()) and not bool((held.tensor == padding).all(1).any())
                found.append(Mark(held, "ids", padding, shown))
        return found


def _mask(held: Held) -> Mark | None:
    """Return what says of each position whether it is padding: by its values, else by its name."""
    tensor, name = held.tensor, held.name.lower()
    rows = rows_of(tensor)
    if rows is None or rows.shape[1] < _FEWEST or rows.shape[0] == rows.shape[1]:
        return None
    if not _MAY_MASK.search(name) or not bool(((rows == 0) | (rows == 1)).all()):
        return None
    values = rows.int()
    steps, real = values.diff(dim=1), int(values[0, 0])
    if not bool((steps != 0).any()):
        alike = bool((values == real).all())
        return Mark(held, "mask", 1 - real) if alike and _SAYS_SO.search(name) else None
    right = bool((values[:, 0] == real).all()) and bool((steps.abs().sum(1) <= 1).all())
    return Mark(held, "mask", 1 - real, shown=True) if right else None


def rows_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a mask as one row a sample; None where it has other axes."""
    if tensor.dim() < 2 or tensor.is_complex():
        return None
    inner = [size for size in tensor.shape[1:] if size != 1]
    return tensor.reshape(tensor.shape[0], inner[0]) if len(inner) == 1 else None
