"""Who owns a parameter: the module that it was made for, and the optimizer that steps it."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn.modules import module as modules

from drygrad.worker.listening import Heard, Listening
from drygrad.worker.run import Instrument, Place, Run


class Ownership(Instrument):
    """Remembers the first module of each parameter, what optimizers hold, and where these were made."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._owners: dict[int, tuple[Any, Any]] = {}
        """By the identity of a parameter: references to it, and to its first module."""
        self._made: dict[int, Place | None] = {}
        """By the identity of an optimizer: where it was made."""
        self._held: set[int] = set()
        """The identities of the parameters that optimizers hold."""
        self._listening = Listening(run)
        self._registrations: Any = None

    def start(self) -> None:
        """Hear of modules' parameters, and of those that optimizers take."""
        self._registrations = modules.register_module_parameter_registration_hook(self._registered)
        self._listening.after(torch.optim.Optimizer, "add_param_group", self._took)

    def finish(self) -> None:
        """Hear of nothing more."""
        if self._registrations is not None:
            self._registrations.remove()
        self._listening.end()

    def _registered(self, module: Any, name: str, parameter: Any) -> None:
        if parameter is not None:
            self._owned(module, parameter)

    def _owned(self, module: Any, parameter: Any) -> None:
        """Remember the first module of a parameter, whose identity may have been that of another one."""
        known, _ = self._owners.get(id(parameter), (None, None))
        if known is None or known() is not parameter:
            self._owners[id(parameter)] = (weakref.ref(parameter), weakref.ref(module))

    def _owner(self, parameter: Any) -> Any:
        """Return the module that a parameter was made for; None where there is none, or it is gone."""
        reference, module = self._owners.get(id(parameter), (None, None))
        return module() if reference is not None and reference() is parameter else None

    def _took(self, heard: Heard) -> None:
        optimizer = heard.args[0]
        self._made.setdefault(id(optimizer), self.run.lines.caller())
        self._held.update(id(parameter) for parameter in optimizer.param_groups[-1]["params"])
