"""Optimizers whose parameters never have a gradient, and parameters with gradients that no optimizer holds."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import torch

from drygrad.worker import graphs
from drygrad.worker.departures import Departure
from drygrad.worker.listening import Heard
from drygrad.worker.naming import call_here
from drygrad.worker.ownership import Ownership
from drygrad.worker.run import Fault, Place, Run

_ENOUGH = 2
_NAMES = 5


class _Steps:
    """The steps of one optimizer: how many there were after a new backward, and how many found nothing to apply."""

    def __init__(self, made: Place | None, parameters: list[Any]) -> None:
        self.made = made
        self.parameters = [id(parameter) for parameter in parameters]
        self.taken = self.idle = self.frozen = self.backwards = 0
        self.place: Place | None = None
        self.counted = False


class IdleOptimizers(Ownership):
    """Compares what optimizers hold with what backward reaches, at each step."""

    name: ClassVar[str] = "idle_optimizers"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._steps: dict[int, _Steps] = {}
        self._loaded: weakref.WeakSet[Any] = weakref.WeakSet()
        self._unheld: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._backwards = self._trained = 0

    def start(self) -> None:
        """Hear of weights, too, that are loaded."""
        super().start()
        self._listening.after(torch.nn.Module, "load_state_dict", self._loaded_into)

    def _loaded_into(self, heard: Heard) -> None:
        for part in heard.args[0].modules():
            self._loaded.add(part)

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Count the passes, and learn how the parameters are called that no optimizer holds."""
        self._backwards += 1
        if not self._held or self._backwards > _ENOUGH:
            return
        fresh = [leaf for leaf in graphs.leaves(roots) if id(leaf) not in self._held and self._is_new(leaf)]
        call = call_here(self.run) if fresh else None
        names = call.parameters() if call is not None else {}
        for leaf in fresh:
            self._names.setdefault(id(leaf), names.get(id(leaf), "a parameter"))

    def _is_new(self, leaf: Any) -> bool:
        """Say whether a tensor is a parameter of a module in training mode that holds what it was made with."""
        owner = self._owner(leaf)
        return owner is not None and owner.training and owner not in self._loaded

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Note a step that comes after a new backward."""
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        steps = self._steps.get(id(optimizer))
        if steps is None:
            steps = self._steps[id(optimizer)] = _Steps(self._made.get(id(optimizer)), parameters)
        steps.place, steps.counted = place, self._backwards > steps.backwards
        steps.backwards = self._backwards

    def step_ends(self, optimizer: Any) -> None:
        """Look for gradients behind the step, for a closure may have computed them in it."""
        steps = self._steps.get(id(optimizer))
        if steps is None:
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        applied = any(p.grad is not None for p in parameters)
        if applied:
            self._trained += 1
            for key in self._names:
                parameter = self._owners[key][0]()
                if parameter is not None and parameter.grad is not None and key not in self._held:
                    self._unheld[key] = self._unheld.get(key, 0) + 1
        if applied or steps.counted:
            steps.taken += 1
            steps.idle += not applied and bool(parameters)
            steps.frozen += not any(
                p.requires_grad or p.grad is not None for g in optimizer.param_groups for p in g["params"]
            )

    def finish(self) -> None:
        """Report what has never met."""
        super().finish()
        if any(fault.code == "DG715" for fault in self.run.faults):
            return
        for steps in self._steps.values():
            if steps.idle == steps.taken >= _ENOUGH:
                self.run.report(self._idle(steps))
            if steps.frozen == steps.taken >= _ENOUGH:
                self.run.report(_all_frozen(steps))
        lacking = [key for key, count in self._unheld.items() if count == self._trained and key not in self._held]
        if lacking and self._trained >= _ENOUGH:
            self.run.report(self._left_out(lacking))

    def _idle(self, steps: _Steps) -> Fault:
        left = next(filter(None, map(self.run.departure_of, steps.parameters)), None) or self._only_end(steps)
        head = (
            f"none of this optimizer's {len(steps.parameters)} parameters got a gradient in any of {steps.taken} steps"
        )
        step = [("it steps here", steps.place)] if steps.place is not None else []
        if left is None:
            return Fault("DG738", f"{head}: no loss depends on them", steps.made or steps.place, related=step)
        made = [("the optimizer is created here", steps.made)] if steps.made is not None else []
        message = f"the graph is cut here, after the optimizer's parameters: {head}"
        return Fault("DG738", message.replace("this optimizer's", "its"), left.place, related=[*made, *step])

    def _only_end(self, steps: _Steps) -> Departure | None:
        """Return the one place where all that the parameters compute leaves the graph."""
        ends = set(map(self.run.only_end_of, steps.parameters))
        return ends.pop() if len(ends) == 1 else None

    def _left_out(self, lacking: list[int]) -> Fault:
        names = [self._names[key] for key in lacking]
        listed = ", ".join(f"`{name}`" for name in names[:_NAMES])
        listed += f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        made = next((place for place in self._made.values() if place is not None), None)
        message = f"{len(lacking)} parameters get gradients in every step, but no optimizer holds them: {listed}"
        owner = self._owners[lacking[0]][1]()
        at = self.run.made_at(owner) if owner is not None else None
        there = self.run.lines.place(at) if at is not None else None
        related = [("the first of them is created here", there)] if there is not None else []
        return Fault("DG739", message, made, related=related)


def _all_frozen(steps: _Steps) -> Fault:
    message = "all parameters of this optimizer are frozen, so step() has no effect"
    related = [("it steps here", steps.place)] if steps.place is not None else []
    return Fault("DG738", message, steps.made or steps.place, related=related)
