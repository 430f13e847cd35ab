"""Optimizers whose parameters never have a gradient, and parameters with gradients that no optimizer holds."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from functools import wraps
from typing import Any, ClassVar

import torch
from torch.nn.modules import module as modules

from drygrad.worker import graphs
from drygrad.worker.naming import call_here
from drygrad.worker.run import Fault, Instrument, Place, Run

_ENOUGH = 2
_NAMES = 5


class Steps:
    """The steps of one optimizer: how many there were after a new backward, and how many found nothing to apply."""

    def __init__(self, made: Place | None, parameters: list[Any]) -> None:
        self.made = made
        self.parameters = [id(parameter) for parameter in parameters]
        self.taken = self.idle = self.backwards = 0
        self.place: Place | None = None
        self.counted = False


class IdleOptimizers(Instrument):
    """Compares what optimizers hold with what backward reaches, at each step."""

    name: ClassVar[str] = "idle_optimizers"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._steps: dict[int, Steps] = {}
        self._made: dict[int, Place | None] = {}
        self._held: set[int] = set()
        self._modules: dict[int, tuple[Any, Any]] = {}
        """By the identity of a parameter: references to it, and to the module that it was made for."""
        self._loaded: weakref.WeakSet[Any] = weakref.WeakSet()
        self._unheld: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._backwards = self._trained = 0
        self._handle: Any = None
        self._restore: list[tuple[Any, str, Any]] = []

    def start(self) -> None:
        """Hear of modules' parameters, of weights that are loaded, and of optimizers that are made."""
        self._handle = modules.register_module_parameter_registration_hook(self._registered)
        self._after(torch.optim.Optimizer, "add_param_group", self._took)
        self._after(torch.nn.Module, "load_state_dict", self._loaded_into)

    def _after(self, kind: Any, method: str, tell: Any) -> None:
        original = getattr(kind, method)

        @wraps(original)
        def heard(receiver: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(receiver, *args, **kwargs)
            tell(receiver)
            return result

        self._restore.append((kind, method, original))
        setattr(kind, method, heard)

    def _registered(self, module: Any, name: str, parameter: Any) -> None:
        if parameter is not None and id(parameter) not in self._modules:
            self._modules[id(parameter)] = (weakref.ref(parameter), weakref.ref(module))

    def _took(self, optimizer: Any) -> None:
        self._made.setdefault(id(optimizer), self.run.lines.caller())
        self._held.update(id(parameter) for parameter in optimizer.param_groups[-1]["params"])

    def _loaded_into(self, module: Any) -> None:
        for part in module.modules():
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
        reference, module = self._modules.get(id(leaf), (None, None))
        owner = module() if reference is not None and reference() is leaf else None
        return owner is not None and owner.training and owner not in self._loaded

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Note a step that comes after a new backward."""
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        steps = self._steps.get(id(optimizer))
        if steps is None:
            steps = self._steps[id(optimizer)] = Steps(self._made.get(id(optimizer)), parameters)
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
                parameter = self._modules[key][0]()
                if parameter is not None and parameter.grad is not None and key not in self._held:
                    self._unheld[key] = self._unheld.get(key, 0) + 1
        if applied or steps.counted:
            steps.taken += 1
            steps.idle += not applied and bool(parameters)

    def finish(self) -> None:
        """Report what has never met."""
        if self._handle is not None:
            self._handle.remove()
        for kind, method, original in self._restore:
            setattr(kind, method, original)
        if any(fault.code == "DG715" for fault in self.run.faults):
            return
        for steps in self._steps.values():
            if steps.idle == steps.taken >= _ENOUGH:
                self.run.report(self._idle(steps))
        lacking = [key for key, count in self._unheld.items() if count == self._trained and key not in self._held]
        if lacking and self._trained >= _ENOUGH:
            self.run.report(self._left_out(lacking))

    def _idle(self, steps: Steps) -> Fault:
        left = next(filter(None, map(self.run.departure_of, steps.parameters)), None)
        head = (
            f"none of this optimizer's {len(steps.parameters)} parameters had a gradient at any of {steps.taken} steps"
        )
        step = [("it steps here", steps.place)] if steps.place is not None else []
        if left is None:
            return Fault("DG738", f"{head}: no loss depends on them", steps.made or steps.place, related=step)
        made = [("the optimizer is made here", steps.made)] if steps.made is not None else []
        message = f"what is computed from the optimizer's parameters leaves the graph here: {head}"
        return Fault("DG738", message.replace("this optimizer's", "its"), left.place, related=[*made, *step])

    def _left_out(self, lacking: list[int]) -> Fault:
        names = [self._names[key] for key in lacking]
        listed = ", ".join(f"`{name}`" for name in names[:_NAMES])
        listed += f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        made = next((place for place in self._made.values() if place is not None), None)
        message = f"{len(lacking)} parameters get gradients at each step, and no optimizer holds them: {listed}"
        owner = self._modules[lacking[0]][1]()
        at = self.run.made_at(owner) if owner is not None else None
        there = self.run.lines.place(at) if at is not None else None
        related = [("the first of them is made here", there)] if there is not None else []
        return Fault("DG739", message, made, related=related)
