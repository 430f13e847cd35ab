"""What is counted or weighed of a batch at once: all pairs, one index for all, weights on a loss that is a mean."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.instruments.broadcasting import is_outer, looks_accidental
from drygrad.worker.ledger import Held
from drygrad.worker.naming import Call, call_here
from drygrad.worker.reading import is_plain, share_storage, size_text
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.watch import Op

_COMPARISONS = frozenset({"aten::eq", "aten::ne"})
_REDUCTIONS = frozenset({"aten::sum", "aten::mean"})
_ARGMAX, _PRODUCT = "aten::argmax", "aten::mul"
_LOSSES = frozenset(
    f"aten::{name}"
    for name in "nll_loss_forward nll_loss2d_forward mse_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits".split()
)
_HEARD = _COMPARISONS | _REDUCTIONS | {_ARGMAX, _PRODUCT}
_MOST = 64


class _Made(NamedTuple):
    """A result that is a fault if it is reduced; the memory that holds it."""

    held: Held
    fault: Fault


class _Index(NamedTuple):
    """One index into the scores of so many samples, and where it was taken."""

    held: Held
    samples: int
    place: Place | None


class Counting(Instrument):
    """Remembers such results, and reports those that are summed up, or compared with the labels of the batch."""

    name: ClassVar[str] = "counting"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._made: dict[int, _Made] = {}
        self._indices: dict[int, _Index] = {}

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for comparisons, products and what reduces them, in the forward pass."""
        if phase != "forward":
            return False
        name = func._schema.name
        return name in _REDUCTIONS if hook == "before_op" else name in _HEARD and name not in _REDUCTIONS

    def before_op(self, op: Op) -> None:
        """Report what was remembered, when the sum or the mean of it is taken."""
        given = op.args[0] if self._made and op.args else None
        held: Held | None = self.run.held_of(given) if isinstance(given, torch.Tensor) else None
        while held is not None:
            made = self._made.get(held.address)
            if made is not None and made.held is held:
                self.run.report(made.fault)
                return
            held = held.source

    def after_op(self, op: Op, result: Any) -> None:
        """Remember what would be wrong to count, or to take for the classes of a batch."""
        if not op.args or not isinstance(result, torch.Tensor):
            return
        if op.name == _ARGMAX:
            self._note_index(op, result)
        elif len(op.args) > 1:
            first, second = op.args[0], op.args[1]
            if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
                return
            if (op.name == _PRODUCT and first.dim() and second.dim()) or not (is_plain(first) and is_plain(second)):
                return
            fault = self._weighed(first, second) if op.name == _PRODUCT else self._compared(first, second)
            held = self.run.held_of(result) if fault is not None else None
            if fault is not None and held is not None and len(self._made) < _MOST:
                self._made[held.address] = _Made(held, fault)

    def _note_index(self, op: Op, result: torch.Tensor) -> None:
        scores, held = op.args[0], self.run.held_of(result)
        if op.argument("dim") is None and scores.dim() == 2 and scores.shape[0] > 1 and held is not None:
            self._indices[held.address] = _Index(held, scores.shape[0], self.run.lines.place(op.instruction))

    def _compared(self, first: torch.Tensor, second: torch.Tensor) -> Fault | None:
        """Return the fault of comparing all pairs; report the index that stands for a whole batch."""
        for index, labels in ((first, second), (second, first)):
            known = self._of_all(index) if self._indices and not index.dim() else None
            if known is not None and labels.dim() and labels.numel() == known.samples:
                here = self.run.lines.caller()
                message = f"argmax without dim returns one index into the scores of all {known.samples} samples"
                elsewhere = here is not None and known.place is not None and here.line != known.place.line
                related = [("compared with the labels here", here)] if elsewhere and here is not None else []
                self.run.report(Fault("DG325", message, known.place or here, related=related))
        if not is_outer(first, second) or share_storage(first, second):
            return None
        call = call_here(self.run)
        if call is None or not looks_accidental(call, first, second):
            return None
        names = [call.describe(side, "a tensor") for side in (first, second)]
        shapes = [f"{name} {size_text(side.shape)}" for name, side in zip(names, (first, second))]
        message = (
            f"{shapes[0]} and {shapes[1]} broadcast against each other; each prediction is compared with every label"
        )
        return Fault("DG324", message, call.place)

    def _of_all(self, tensor: torch.Tensor) -> _Index | None:
        held: Held | None = self.run.held_of(tensor)
        known = self._indices.get(held.address) if held is not None else None
        return known if known is not None and known.held is held else None

    def _weighed(self, first: torch.Tensor, second: torch.Tensor) -> Fault | None:
        """Return the fault of weights that meet the mean of a loss."""
        for loss, weights in ((first, second), (second, first)):
            if loss.dim() or not loss.requires_grad or weights.numel() < 2:
                continue
            origin = self.run.origin_of(loss)
            call = call_here(self.run) if origin is not None and origin.op in _LOSSES else None
            if call is None or origin is None:
                continue
            return self._on_mean(call, weights, self.run.lines.place(origin.instruction))
        return None

    def _on_mean(self, call: Call, weights: torch.Tensor, made: Place | None) -> Fault:
        name = call.describe(weights, "the weights")
        message = (
            f"the loss is already reduced to one number; {name} {size_text(weights.shape)} has no per-sample effect"
        )
        elsewhere = made is not None and call.place is not None and made.line != call.place.line
        related = [("the loss is reduced here", made)] if elsewhere and made is not None else []
        return Fault("DG327", message, call.place, related=related)
