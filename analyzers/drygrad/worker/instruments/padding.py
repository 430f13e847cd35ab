"""Classes that are mere padding, and count in the mean of a loss as if they were to be learnt."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch.nn.utils import rnn

from drygrad.worker.ledger import Held
from drygrad.worker.listening import Heard, Listening
from drygrad.worker.naming import Call, call_here
from drygrad.worker.reading import is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Run
from drygrad.worker.watch import Op

_CODE = "DG319"
_LOSSES = frozenset({"aten::nll_loss_forward", "aten::nll_loss2d_forward"})
_PADDED = "aten::constant_pad_nd"
_HANDED_ON = frozenset({"aten::_to_copy", "aten::clone", "aten::stack", "aten::cat"})
_SUMMED = (1, 2)
_MOST = 4096


class Padded(NamedTuple):
    """Memory that was filled up with a value."""

    held: Held
    value: int


class Padding(Instrument):
    """Follows what was padded to a loss of classes, which is told nothing of the padding."""

    name: ClassVar[str] = "padding"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._padded: dict[int, Padded] = {}
        self._listening = Listening(run)

    def start(self) -> None:
        """Listen to ``pad_sequence``, which torch takes apart before anybody hears of it."""
        self._listening.after(rnn, "pad_sequence", self._sequences_padded)

    def finish(self) -> None:
        """Listen no more."""
        self._listening.end()

    def _sequences_padded(self, heard: Heard) -> None:
        if len({len(sequence) for sequence in heard.argument("sequences", 0)}) > 1:
            self._remember(heard.result, heard.argument("padding_value", 2) or 0.0)

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for losses ahead of them, and for what pads and hands on."""
        name = func._schema.name
        return name in _LOSSES if hook == "before_op" else name == _PADDED or name in _HANDED_ON

    def after_op(self, op: Op, result: Any) -> None:
        """Remember what was padded, or made of such."""
        if op.name == _PADDED:
            self._remember(result, op.argument("value") or 0)
        elif self._padded:
            padded = next(filter(None, map(self._of, op.tensors())), None)
            if padded is not None:
                self._remember(result, padded.value)

    def _remember(self, tensor: Any, value: float) -> None:
        held: Held | None = self.run.held_of(tensor)
        if held is not None and not tensor.is_floating_point() and len(self._padded) < _MOST:
            self._padded[held.address] = Padded(held, int(value))

    def _of(self, tensor: torch.Tensor) -> Padded | None:
        held: Held | None = self.run.held_of(tensor)
        padded = self._padded.get(held.address) if held is not None else None
        return padded if padded is not None and padded.held is held else None

    def before_op(self, op: Op) -> None:
        """Look at the classes that a loss is about to take the mean or the sum over."""
        target = op.argument("target")
        padded = self._of(target) if self._padded and op.phase == "forward" else None
        alone = op.argument("weight") is None and op.argument("reduction") in _SUMMED
        if padded is None or not alone or padded.value == op.argument("ignore_index") or not is_readable(target):
            return
        with quietly():
            count = int((target == padded.value).sum())
        call = call_here(self.run) if count else None
        if call is not None:
            self.run.report(self._fault(call, padded.value, count, target.numel()))

    def _fault(self, call: Call, value: int, count: int, total: int) -> Fault:
        module = call.module()
        made = self.run.lines.place(self.run.made_at(module[0])) if module is not None else None
        message = (
            f"{count} of {total} targets are {value}, the padding, and count toward the loss; ignore_index={value} "
            "excludes them"
        )
        related = (
            [("the padded targets are passed here", call.place)] if made is not None and call.place is not None else []
        )
        return Fault(_CODE, message, made or call.place, related=related, facts={"value": value})
