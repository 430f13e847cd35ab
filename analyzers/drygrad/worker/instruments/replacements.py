"""Layers that were replaced after the optimizer had taken their parameters: it steps what is no longer used."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import torch
from torch.nn.modules import module as modules

from drygrad.worker import graphs
from drygrad.worker.ownership import Ownership
from drygrad.worker.run import Fault, Place, Run


class Replacements(Ownership):
    """Notes what takes the place of parameters that an optimizer holds, and which ones have gradients."""

    name: ClassVar[str] = "replacements"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._named: set[int] = set()
        self._reached: dict[int, Any] = {}
        self._replaced: dict[int, tuple[Any, Place | None]] = {}
        """By the identity of a parameter that an optimizer holds: it, and where another has taken its place."""
        self._layers: Any = None

    def start(self) -> None:
        """Hear of layers, too, that are assigned to modules."""
        super().start()
        self._layers = modules.register_module_module_registration_hook(self._assigned_layer)

    def _registered(self, module: Any, name: str, parameter: Any) -> None:
        super()._registered(module, name, parameter)
        old = module._parameters.get(name)
        if old is not None and old is not parameter:
            self._replace([old], [parameter])

    def _assigned_layer(self, module: Any, name: str, layer: Any) -> None:
        """Note what a layer takes the place of: the constructor of a copied layer has told nothing of it."""
        old = module._modules.get(name)
        if old is None or layer is None or old is layer:
            return
        for inner in layer.modules():
            for parameter in (p for p in inner._parameters.values() if p is not None):
                self._owned(inner, parameter)
        self._replace([*old.parameters()], [*layer.parameters()])

    def _replace(self, old: list[Any], new: list[Any]) -> None:
        kept = {id(parameter) for parameter in new}
        gone = [parameter for parameter in old if id(parameter) in self._held - kept]
        place = self.run.lines.caller() if gone else None
        self._replaced.update((id(parameter), (weakref.ref(parameter), place)) for parameter in gone)

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
        gone = [p for p in parameters if p.grad is None and self._is_gone(p)]
        fresh = [p for p in (reference() for reference in self._reached.values()) if p is not None]
        fresh = [p for p in fresh if p.grad is not None and id(p) not in self._held]
        if not gone or not fresh:
            return
        made_at = self.run.made_at(self._owner(fresh[0]))
        new = self.run.lines.place(made_at) if made_at is not None else None
        assigned = next((self._replaced[id(p)][1] for p in gone if id(p) in self._replaced), None)
        made = self._made.get(id(optimizer)) or place
        related = [("the new layer is created here", new)] if new else []
        if assigned is not None and (new is None or assigned.line != new.line):
            related.append(("it replaces the old one here", assigned))
        self.run.report(
            Fault(
                "DG715",
                f"this optimizer holds {len(gone)} parameters of replaced layers and none of the {len(fresh)} new "
                "ones; the new layers are never trained",
                made,
                related=related,
            )
        )

    def _is_gone(self, parameter: Any) -> bool:
        """Say whether a parameter's layer is no more, or has another in its place."""
        replaced, _ = self._replaced.get(id(parameter), (None, None))
        if replaced is not None and replaced() is parameter:
            return True
        return id(parameter) in self._owners and self._owner(parameter) is None

    def finish(self) -> None:
        """Hear of nothing more."""
        super().finish()
        if self._layers is not None:
            self._layers.remove()
