"""Changes that half precision rounds away: averages that never move, steps that leave the weights as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.naming import call_here
from drygrad.worker.reading import HALVES, is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.watch import Op

_CODE = "DG423"
_MOST = 200
_LARGEST = 1 << 22
_SAMPLE = 1 << 12
_PARAMETERS = 16
_STEPS = 2
_LOST = 0.9
_FEW = 64
_EXACT: dict[str, Callable[..., torch.Tensor]] = {
    "aten::mul_": torch.mul,
    "aten::add_": torch.add,
    "aten::lerp_": torch.lerp,
}


class _Sample(NamedTuple):
    """Some weights as they were before a step, with the parameter that they are of."""

    parameter: torch.Tensor
    before: torch.Tensor


class _Step(NamedTuple):
    """How many of the weights with a gradient a step has left as they were."""

    unchanged: int
    total: int


class Absorbed(Instrument):
    """Compares weights of half precision with what a change in float32 would make of them."""

    name: ClassVar[str] = "absorbed"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._looks = 0
        self._samples: list[_Sample] = []
        self._place: Place | None = None
        self._steps: dict[int, list[_Step]] = {}
        self._places: dict[int, Place | None] = {}

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for the changes in place that averages of weights are made of."""
        return hook == "before_op" and phase == "forward" and func._schema.name in _EXACT

    def before_op(self, op: Op) -> None:
        """Compute a change of a parameter in float32, too, and see whether anything would be left of it."""
        weights = op.args[0]
        if weights.dtype not in HALVES or not isinstance(weights, torch.nn.Parameter) or not is_readable(weights):
            return
        self._looks += 1
        if self._looks > _MOST or not 0 < weights.numel() <= _LARGEST:
            return
        with quietly():
            wide = [value.float() if isinstance(value, torch.Tensor) else value for value in op.args]
            exact = _EXACT[op.name](*wide, **op.kwargs)
            lost = bool((exact.to(weights.dtype) == weights).all()) and bool((exact != wide[0]).any())
        call = call_here(self.run) if lost else None
        if call is not None and call.place is not None:
            name = str(weights.dtype).removeprefix("torch.")
            message = (
                f"{name} rounds this change away at all {weights.numel()} positions: it is less than half of the "
                "last digit, so the weights never change"
            )
            self.run.report(Fault(_CODE, message, call.place))

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Note some of the weights of half precision that have a gradient."""
        steps = self._steps.setdefault(id(optimizer), [])
        self._samples.clear()
        if len(steps) >= _STEPS or any(g["lr"] < g.get("initial_lr", g["lr"]) for g in optimizer.param_groups):
            return
        self._places[id(optimizer)] = place
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        chosen = [p for p in parameters if p.grad is not None and p.dtype in HALVES and is_readable(p)]
        with quietly():
            self._samples = [_Sample(p, p.flatten()[:_SAMPLE].clone()) for p in chosen[:_PARAMETERS]]

    def step_ends(self, optimizer: Any) -> None:
        """Count the weights that the step has left as they were."""
        unchanged = total = 0
        with quietly():
            for parameter, before in self._samples:
                gradient: Any = parameter.grad
                if gradient is None or not is_readable(gradient) or gradient.shape != parameter.shape:
                    continue
                moved = gradient.flatten()[: len(before)] != 0
                total += int(moved.sum())
                unchanged += int((moved & (parameter.flatten()[: len(before)] == before)).sum())
        self._samples.clear()
        if total:
            self._steps[id(optimizer)].append(_Step(unchanged, total))

    def finish(self) -> None:
        """Report optimizers whose steps are lost."""
        for identity, steps in self._steps.items():
            unchanged, total = sum(s.unchanged for s in steps), sum(s.total for s in steps)
            if len(steps) >= _STEPS and total >= _FEW and unchanged >= _LOST * total:
                message = (
                    f"{unchanged * 100 // total} % of the weights are unchanged by the step although they have a "
                    "gradient: the step is below half of their last digit in half precision"
                )
                self.run.report(Fault(_CODE, message, self._places.get(identity)))
