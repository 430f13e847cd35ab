"""Where modules are made: the lines that call the constructors of those that hold parameters or buffers."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import torch
from torch.nn.modules import module as hooks

from drygrad.worker.lines import Instruction
from drygrad.worker.run import Instrument, Run


class Construction(Instrument):
    """Remembers the user's line in which a module got its first parameter or buffer."""

    name: ClassVar[str] = "construction"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._made: weakref.WeakKeyDictionary[torch.nn.Module, Instruction] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []
        run.made_at = self._made.get

    def start(self) -> None:
        """Listen to registrations."""
        self._handles = [
            hooks.register_module_parameter_registration_hook(self._registered),
            hooks.register_module_buffer_registration_hook(self._registered),
        ]

    def _registered(self, module: torch.nn.Module, name: str, value: Any) -> None:
        here = self.run.lines.here() if module not in self._made else None
        if here is not None:
            self._made[module] = here

    def finish(self) -> None:
        """Listen no more."""
        for handle in self._handles:
            handle.remove()
