"""Targets that a loss, or what the model ends in, cannot reach: labels of another coding, values beyond its range."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional

from drygrad.worker.listening import Heard, Listening
from drygrad.worker.naming import Call, call_here
from drygrad.worker.reading import at_hand, extremes, is_plain, is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.watch import Op

_CODE = "DG329"
_SIGNED = {"cosine_embedding_loss": 2, "hinge_embedding_loss": 1, "margin_ranking_loss": 2, "soft_margin_loss": 1}
"""Losses whose labels are -1 and 1, with the position of these."""
_WITH_LOGITS = "aten::binary_cross_entropy_with_logits"
_DISTANCES = frozenset({"aten::mse_loss", "aten::smooth_l1_loss", "aten::huber_loss"})
_ENDS = {
    "aten::sigmoid": (0.0, 1.0),
    "aten::_softmax": (0.0, 1.0),
    "aten::tanh": (-1.0, 1.0),
    "aten::relu": (0.0, float("inf")),
}
"""What a model may end in, and between what its results lie."""
_MARGIN, _SHARE = 0.01, 0.05


class Targets(Instrument):
    """Compares the values of targets with what a loss takes, or with the range of what it compares them with."""

    name: ClassVar[str] = "targets"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._listening = Listening(run)

    def start(self) -> None:
        """Listen to losses that are no operations of their own."""
        for name in _SIGNED:
            self._listening.after(torch.nn.functional, name, self._signed)

    def finish(self) -> None:
        """Listen no more."""
        self._listening.end()

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for the losses that are operations."""
        name = func._schema.name
        return phase == "forward" and (name == _WITH_LOGITS or name in _DISTANCES)

    def before_op(self, op: Op) -> None:
        """Look at what a loss is to compare."""
        if len(op.args) < 2 or not isinstance(op.args[1], torch.Tensor):
            return
        given, target = op.args[0], op.args[1]
        if target.requires_grad or not is_readable(target):
            return
        if op.name == _WITH_LOGITS:
            self._probabilities(target)
        elif isinstance(given, torch.Tensor) and is_plain(given):
            self._reachable(given, target)

    def _signed(self, heard: Heard) -> None:
        target = heard.argument("target", _SIGNED[heard.name])
        found = extremes(target) if isinstance(target, torch.Tensor) else None
        if found is None:
            return
        other = int(((target != 1) & (target != -1)).sum())
        if other:
            low, high = found
            between = f"here they lie between {low:g} and {high:g}, {other} of them strictly between"
            message = f"the labels of {heard.name} are -1 and 1; {between}"
            self.run.report(Fault(_CODE, message, self.run.lines.caller()))

    def _probabilities(self, target: torch.Tensor) -> None:
        found = extremes(target)
        call = call_here(self.run) if found is not None and (found[0] < 0 or found[1] > 1) else None
        if found is None or call is None:
            return
        shown = call.describe(self._written(call, target), "the target")
        message = f"targets are probabilities between 0 and 1, but {shown} ranges from {found[0]:g} to {found[1]:g}"
        self.run.report(Fault(_CODE, f"{message}; the loss has no lower bound", call.place))

    def _written(self, call: Call, target: torch.Tensor) -> torch.Tensor:
        given = call.local("target")
        return given[0] if given and isinstance(given[0], torch.Tensor) else target

    def _reachable(self, given: torch.Tensor, target: torch.Tensor) -> None:
        origin = self.run.origin_of(given)
        bounds = _ENDS.get(origin.op) if origin is not None else None
        own = extremes(given) if bounds is not None else None
        if origin is None or bounds is None or own is None or own[0] < bounds[0] or own[1] > bounds[1]:
            return
        low, high = bounds[0] - _MARGIN, bounds[1] + _MARGIN
        found = extremes(target)
        if found is None or (found[0] >= low and found[1] <= high):
            return
        with quietly():
            values = at_hand(target)
            beyond = int(((values < low) | (values > high)).sum())
        call = call_here(self.run) if beyond >= _SHARE * target.numel() else None
        if call is None:
            return
        name = call.describe(self._written(call, target), "the target")
        operation = origin.op.rpartition("::")[2].lstrip("_")
        limits = "below 0" if bounds[1] == float("inf") else f"outside [{bounds[0]:g}, {bounds[1]:g}]"
        message = f"{beyond} of {target.numel()} values of {name} are {limits}, which {operation} can never reach"
        made = self.run.lines.place(origin.instruction)
        related = _elsewhere(f"{operation} is applied here", made, call.place)
        self.run.report(Fault(_CODE, message, call.place, related=related))


def _elsewhere(message: str, place: Place | None, at: Place | None) -> list[tuple[str, Place]]:
    return [(message, place)] if place is not None and at is not None and place.line != at.line else []
