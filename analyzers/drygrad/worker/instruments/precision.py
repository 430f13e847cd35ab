"""Gradients that float16 rounds to zero, where no scaler keeps them in range."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, ClassVar

import torch

from drygrad.worker.reading import is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.watch import Op

_MOST = 100
_CAST = "aten::_to_copy"
_UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"


class Precision(Instrument):
    """Counts what the casts of gradients to float16 lose."""

    name: ClassVar[str] = "precision"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._looks = 0
        self._scaled = False
        self._backward: Place | None = None
        self._lost: tuple[int, int, Place | None, Place | None] | None = None

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Note where backward is called."""
        self._backward = place

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for casts, and for the scaler's unscaling."""
        return func._schema.name == _UNSCALE or (phase == "backward" and func._schema.name == _CAST)

    def after_op(self, op: Op, result: Any) -> None:
        """Compare a gradient with what float16 leaves of it; remember the greatest loss."""
        if op.name == _UNSCALE:
            self._scaled = True
        if op.name != _CAST or op.argument("dtype") is not torch.float16:
            return
        self._looks += 1
        if self._looks > _MOST or not is_readable(op.args[0]):
            return
        with quietly():
            before = int(op.args[0].count_nonzero())
            lost = before - int(result.count_nonzero())
        if lost > (self._lost[0] if self._lost else 0):
            self._lost = (lost, before, self._backward, self.run.lines.place(op.instruction))

    def finish(self) -> None:
        """Report what was lost, unless a scaler was at work."""
        if self._lost is None or self._scaled:
            return
        lost, before, backward, origin = self._lost
        self.run.report(
            Fault(
                "DG724",
                f"{lost} of {before} gradients underflowed to zero: they are below 6e-8, the limit of float16, and "
                "no GradScaler scales the loss",
                backward,
                related=[("this gradient is float16", origin)] if origin else [],
            )
        )
