"""The gradients that a step applies: their norms, and those that are exactly zero throughout."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

import math
from collections import Counter
from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker import graphs
from drygrad.worker.naming import call_here
from drygrad.worker.reading import at_hand, is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Place, Run

_MOST = 200
_NAMED = 5
_STEPS = 3
_UNNAMED = "a parameter"
_FLAT = frozenset({"RoundBackward0", "FloorBackward0", "CeilBackward0", "TruncBackward0", "SignBackward0"})


class Norm(NamedTuple):
    """How long the gradient of one parameter was before a step."""

    name: str
    shape: list[int]
    norm: float


class Gradients(Instrument):
    """Measures the gradients of each parameter at the first steps of each optimizer.

    It notes which leaves backward reaches: a leaf counts when the graph leads to it, whether backward then succeeds or
    not.
    """

    name: ClassVar[str] = "gradients"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._norms: dict[int, list[Norm]] = {}
        self._place: Place | None = None
        self._steps: Counter[int] = Counter()
        self._passes: Counter[Place | None] = Counter()
        self._reached: dict[int, str] = {}
        self._flat: Place | None = None
        """Where an operation stands on the way whose derivative is zero everywhere."""

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Note the leaves that the graph leads to, at the first passes from each place."""
        self._passes[place] += 1
        if self._passes[place] > _STEPS:
            return
        call = call_here(self.run)
        names = call.parameters() if call else {}
        flat = (node for node in graphs.nodes(roots) if node.name() in _FLAT)
        for node in flat if self._flat is None else ():
            self._flat = self.run.lines.place(self.run.lines.of_node(node))
        for leaf in graphs.leaves(roots):
            if self._reached.get(id(leaf), _UNNAMED) == _UNNAMED:
                self._reached[id(leaf)] = names.get(id(leaf), _UNNAMED)

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Measure what the step is about to apply."""
        self._steps[id(optimizer)] += 1
        if self._steps[id(optimizer)] > _STEPS:
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        with_gradient = [p for p in parameters if p.grad is not None and is_readable(p.grad) and p.grad.numel()][:_MOST]
        call = call_here(self.run) if self._steps[id(optimizer)] == 1 else None
        names = call.parameters() if call else {}
        self._place = self._place or place
        for parameter, norm in zip(with_gradient, _norms([p.grad for p in with_gradient])):
            known = self._norms.setdefault(id(parameter), [])
            name = known[0].name if known else names.get(id(parameter), _UNNAMED)
            known.append(Norm(name, list(parameter.shape), norm))

    def finish(self) -> None:
        """Tell the norms; report parameters whose gradients were zero throughout, though others' were not."""
        self.run.result["gradients"] = [
            {"name": norms[-1].name, "shape": norms[-1].shape, "norm": _finite(norms[-1].norm)}
            for norms in self._norms.values()
        ]
        self.run.result["reached"] = sorted(self._reached.values())
        zero = [norms[0].name for norms in self._norms.values() if len(norms) > 1 and not any(n.norm for n in norms)]
        if zero and (self._flat is not None or len(zero) < len(self._norms)):
            self.run.report(self._zero(zero))

    def _zero(self, names: list[str]) -> Fault:
        """Return the fault of parameters whose gradients are zero, at an operation whose derivative is."""
        listed = ", ".join(f"`{name}`" for name in names[:_NAMED]) + (" ..." if len(names) > _NAMED else "")
        head = f"the gradients of {len(names)} of {len(self._norms)} parameters are exactly zero in every step"
        facts = {"parameters": names}
        if self._flat is None:
            return Fault("DG114", f"{head}: {listed}", self._place, severity="hint", facts=facts)
        step = [("the step that applies them", self._place)] if self._place is not None else []
        message = f"the derivative of this operation is zero everywhere; {head}: {listed}"
        severity = "warning" if len(names) == len(self._norms) else "hint"
        return Fault("DG114", message, self._flat, severity=severity, related=step, facts=facts)


def _norms(gradients: list[Any]) -> list[float]:
    """Return the norm of each gradient; 0 only if each element is."""
    with quietly():
        gradients = [at_hand(gradient) for gradient in gradients]
        norms: list[float] = [norm.item() for norm in torch._foreach_norm(gradients)] if gradients else []
        # The squares of small numbers are 0 before they are.
        return [norm or float(gradient.abs().amax()) for norm, gradient in zip(norms, gradients)]


def _finite(norm: float) -> float | None:
    """Return a norm as JSON has it: none where it is not finite."""
    return norm if math.isfinite(norm) else None
