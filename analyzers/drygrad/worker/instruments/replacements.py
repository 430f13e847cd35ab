"""Layers that were replaced after the optimizer had taken their parameters: it steps what is no longer used."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from functools import wraps
from typing import Any, ClassVar

import torch
from torch.nn.modules import module as modules

from drygrad.worker import graphs
from drygrad.worker.run import Fault, Instrument, Place, Run


class Replacements(Instrument):
    """Remembers which module each parameter was made for, and which optimizer holds it."""

    name: ClassVar[str] = "replacements"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._owners: dict[int, tuple[Any, Any]] = {}
        """By the identity of a parameter: references to it, and to its first module."""
        self._made: dict[int, Place | None] = {}
        self._held: set[int] = set()
        self._named: set[int] = set()
        self._reached: dict[int, Any] = {}
        self._handle: Any = None
        self._restore: Any = None

    def start(self) -> None:
        """Hear of modules' parameters, and of those that optimizers take."""
        self._handle = modules.register_module_parameter_registration_hook(self._registered)
        kind: Any = torch.optim.Optimizer
        self._restore = original = kind.add_param_group

        @wraps(original)
        def add_param_group(optimizer: Any, group: Any) -> None:
            original(optimizer, group)
            self._made.setdefault(id(optimizer), self.run.lines.caller())
            self._held.update(id(parameter) for parameter in optimizer.param_groups[-1]["params"])

        kind.add_param_group = add_param_group

    def _registered(self, module: Any, name: str, parameter: Any) -> None:
        if parameter is not None and id(parameter) not in self._owners:
            self._owners[id(parameter)] = (weakref.ref(parameter), weakref.ref(module))

    def assigned(self, line: int, name: str, value: Any) -> None:
        """Take the line that first names an optimizer for the one that made it: a function has returned it."""
        if isinstance(value, torch.optim.Optimizer) and id(value) not in self._named and name != "return":
            self._named.add(id(value))
            made = self._made.get(id(value))
            if made is None or made.line != line:
                self._made[id(value)] = Place(self.run.plan["path"], line)

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Note the parameters that get gradients, and that no optimizer holds."""
        if self._owners.keys() <= self._held:
            return  # as in most programs, whose graph nobody has to walk through for that
        for leaf in graphs.leaves(roots):
            if id(leaf) not in self._held and self._owner(leaf) is not None:
                self._reached.setdefault(id(leaf), weakref.ref(leaf))

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Compare what an optimizer holds with what has gradients now."""
        parameters: list[Any] = [p for group in optimizer.param_groups for p in group["params"]]
        gone = [p for p in parameters if p.grad is None and id(p) in self._owners and self._owner(p) is None]
        fresh = [p for p in (reference() for reference in self._reached.values()) if p is not None]
        fresh = [p for p in fresh if p.grad is not None and id(p) not in self._held]
        if not gone or not fresh:
            return
        made_at = self.run.made_at(self._owner(fresh[0]))
        new = self.run.lines.place(made_at) if made_at is not None else None
        self.run.report(
            Fault(
                "DG715",
                f"this optimizer holds {len(gone)} parameters of layers that were replaced since, "
                f"and none of the {len(fresh)} that took their place: these never learn",
                self._made.get(id(optimizer)) or place,
                related=[("a new layer is made here", new)] if new else [],
            )
        )

    def _owner(self, parameter: Any) -> Any:
        """Return the module that a parameter was made for; None where there is none, or it is gone."""
        reference, module = self._owners.get(id(parameter), (None, None))
        return module() if reference is not None and reference() is parameter else None

    def finish(self) -> None:
        """Hear of nothing more."""
        if self._handle is not None:
            self._handle.remove()
            kind: Any = torch.optim.Optimizer
            kind.add_param_group = self._restore
