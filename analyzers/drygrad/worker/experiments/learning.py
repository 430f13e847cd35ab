"""It learns: steps that are taken with the same inputs again and again change the loss, and do not blow it up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.instruments.idle_optimizers import IdleOptimizers
from drygrad.worker.naming import within
from drygrad.worker.reading import at_hand, is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Place, Run

_CALLS, _NEEDED, _FEW, _SHARE = 24, 6, 3, 0.5
_GREAT, _GROWN = 1e3, 100.0
"""A loss has blown up when it is great, and so many times what it was."""
_FELT = 1e-3
"""A step that, by its gradients, takes so much of the loss away would be felt."""


class ItLearns(Relation):
    """Calls a step of training with the same inputs, as often as the time allows."""

    code: ClassVar[str] = "DG937"
    name: ClassVar[str] = "it learns"
    rank: ClassVar[int] = 45

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield why the loss does not become less."""
        if not bench.trains:
            raise NotTried("it takes no training step")
        given = bench.inputs()
        if any(held.grad_fn is not None for held in _tensors(given)):
            raise NotTried("its input already has a graph, which only its caller renews")
        heard = Losses(bench.run)
        idle = _of_idle_optimizers(bench, given, heard)
        if idle:
            yield from idle
            return
        if bench.invented or bench.unprepared:
            raise NotTried("its inputs are not the program's own")
        _require_owed(heard)
        for number in range(_FEW, _CALLS):
            if not math.isfinite(heard.losses[-1]) or (len(heard.losses) >= _NEEDED and bench.spent > _SHARE):
                break
            bench.must_pass(given, bench.seed + number)
            _require_owed(heard)
        yield from _judged(heard)


def _of_idle_optimizers(bench: Bench, given: Inputs, heard: Losses) -> list[Fault]:
    """Return what the first steps show of optimizers whose parameters no loss depends on: whatever the inputs are."""
    listening = [one for one in bench.execution.instruments if isinstance(one, IdleOptimizers)]
    bench.listen(heard, *listening, bench.execution.progress)
    for number in range(_FEW):
        bench.must_pass(given, bench.seed + number)
        if heard.losses and not math.isfinite(heard.losses[-1]):
            break
    for instrument in listening:
        instrument.finish()
    found = [*bench.run.faults]
    bench.run.faults.clear()
    for fault in found if bench.invented or bench.unprepared else ():
        fault.severity = "info"
    return found


def _tensors(given: Inputs) -> Iterator[torch.Tensor]:
    for name, value in zip(given.names, given.values):
        yield from (held for _, held in within(name, value) if isinstance(held, torch.Tensor))


def _require_owed(heard: Losses) -> None:
    """Raise NotTried where it cannot be told which loss is to fall."""
    if not heard.losses or not heard.optimizers:
        raise NotTried("it takes no training step")
    if len(heard.places) != 1 or len(heard.optimizers) != 1 or heard.is_vector:
        raise NotTried("it calls backward() on more than one loss, or has more than one optimizer")
    if not heard.rates:
        raise NotTried("its learning rate is 0")


def _judged(heard: Losses) -> Iterator[Fault]:
    first, last, count = heard.losses[0], heard.losses[-1], len(heard.losses)
    related = [("the step happens here", heard.stepped)] if heard.stepped is not None else []
    place = next(iter(heard.places))
    if not math.isfinite(first) or count < 2:
        raise NotTried("its first loss is not finite, or its only one")
    rate = f"with a learning rate of {max(heard.rates):g}"
    message = None
    if not math.isfinite(last):
        message = f"{rate}, the loss goes from {first:.3g} to {last} in {count} steps and never decreases"
    elif count >= _NEEDED and _blows_up(heard.losses):
        message = f"{rate}, the loss grows from {first:.3g} to {last:.3g} in {count} steps"
    elif count >= _NEEDED and heard.felt and len(set(heard.losses)) == 1:
        message = (
            f"{count} steps do not change the loss, which stays at {first:.6g}; the trained parameters have no "
            "influence on it"
        )
    if message is not None:
        yield Fault(ItLearns.code, message, place, related=related)


def _blows_up(losses: list[float]) -> bool:
    """Say whether a loss that was at least 0 grows at every step of the last half, to many times what it was."""
    first, last, half = losses[0], losses[-1], losses[len(losses) // 2 :]
    rises = all(one < other for one, other in zip(half, half[1:]))
    return min(losses) >= 0 and rises and last > _GREAT and last > _GROWN * first


class _Before(NamedTuple):
    parameter: Any
    value: torch.Tensor
    gradient: torch.Tensor


class Losses(Instrument):
    """Notes what backward begins from, and how much of it each step should take away."""

    name: ClassVar[str] = "losses"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.losses: list[float] = []
        self.places: set[Place] = set()
        self.optimizers: set[int] = set()
        self.rates: set[float] = set()
        self.stepped: Place | None = None
        self.is_vector = False
        self.felt = False
        """Whether the first step should have changed the loss, by the gradients of what it has moved."""
        self._before: list[_Before] = []

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Note the loss."""
        root = roots[0] if len(roots) == 1 else None
        if root is None or root.numel() != 1 or place is None or not is_readable(root):
            self.is_vector = True
            return
        self.places.add(place)
        with quietly():
            self.losses.append(float(at_hand(root).detach()))

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Keep what the first step is to change."""
        self.optimizers.add(id(optimizer))
        self.rates |= {float(group["lr"]) for group in optimizer.param_groups if group.get("lr")}
        self.stepped = self.stepped or place
        if len(self.losses) != 1:
            return
        held = (p for group in optimizer.param_groups for p in group["params"] if is_readable(p))
        with quietly():
            changing = [p for p in held if p.grad is not None and is_readable(p.grad)]
            self._before = [_Before(p, at_hand(p).detach().clone(), at_hand(p.grad).clone()) for p in changing]

    def step_ends(self, optimizer: Any) -> None:
        """Tell by the gradients what the first step should do to the loss."""
        before, self._before = self._before, []
        with quietly():
            moved = sum(float(((at_hand(b.parameter).detach() - b.value) * b.gradient).sum()) for b in before)
        if before and self.losses:
            self.felt = abs(moved) > _FELT * max(abs(self.losses[0]), 1e-3)
