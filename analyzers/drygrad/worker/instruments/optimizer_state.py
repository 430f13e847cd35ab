"""What an optimizer keeps of finite gradients, and what it makes of finite weights, that is not finite (DG410)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

import torch

from drygrad.worker.reading import extremes, is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Run

_CODE = "DG410"
_STEPS = 3


class OptimizerState(Instrument):
    """Looks at the averages and sums of an optimizer after each of its first steps."""

    name: ClassVar[str] = "optimizer_state"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._steps: Counter[int] = Counter()

    def step_ends(self, optimizer: Any) -> None:
        """Report the first average that has overflown though the gradient has not."""
        self._steps[id(optimizer)] += 1
        if self._steps[id(optimizer)] > _STEPS:
            return
        for parameter, state in optimizer.state.items():
            gradient: Any = parameter.grad
            if not _is_float(gradient) or parameter.dtype is torch.float16:  # births tells of steps in float16
                continue
            lost = next((name for name, kept in _kept(state) if not _is_finite(kept)), None)
            if lost is not None and _is_finite(gradient):
                both = extremes(gradient)
                greatest = max(abs(float(end)) for end in both or (0.0,))
                sentence = (
                    f"`{lost}` of {type(optimizer).__name__} overflows because gradients reach {greatest:.3g}; the "
                    "weights it belongs to stop moving or become NaN"
                )
                self.run.report(Fault(_CODE, sentence, self.run.lines.caller(), severity="warning"))
                return


def _kept(state: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the floating tensors that an optimizer keeps for a parameter."""
    if isinstance(state, Mapping):
        yield from ((name, kept) for name, kept in cast("Mapping[str, Any]", state).items() if _is_float(kept))


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and is_readable(value)


def _is_finite(tensor: torch.Tensor) -> bool:
    with quietly():
        return bool(torch.isfinite(tensor).all())
