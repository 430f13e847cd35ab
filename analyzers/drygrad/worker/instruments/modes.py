"""Frozen parts that were put into evaluation mode for good, and work in training mode again."""

from __future__ import annotations

import sys
from typing import Any, ClassVar
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch.nn.modules import module as hooks
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.dropout import _DropoutNd  # pyright: ignore[reportPrivateUsage]

from drygrad.worker.listening import Heard, Listening
from drygrad.worker.run import Fault, Instrument, Place, Run

_FROZEN_TRAINS = "DG769"
_OURS = "drygrad."


class Modes(Instrument):
    """Notes what the program puts into evaluation mode before it trains, and which ``train()`` undoes it."""

    name: ClassVar[str] = "modes"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._listening = Listening(run)
        self._recursion: Any = torch.nn.Module.train.__code__
        self._kept: WeakSet[torch.nn.Module] = WeakSet()
        self._undone: WeakKeyDictionary[torch.nn.Module, Place] = WeakKeyDictionary()
        self._has_trained = False
        self._handle: Any = None

    def start(self) -> None:
        """Listen to the switches of modes."""
        self._listening.after(torch.nn.Module, "train", self._switched)

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Take what is switched from now on for a part of the training: an evaluation between two epochs."""
        self._has_trained = True

    def _switched(self, heard: Heard) -> None:
        if self._is_recursion():
            return
        module, trains = heard.args[0], heard.argument("mode", 1)
        below = set(module.modules())
        if trains is False:
            if not self._has_trained:
                self._kept.add(module)
            for part in [part for part in self._undone if part in below]:
                del self._undone[part]
            return
        self._kept.discard(module)
        self._undone.pop(module, None)
        place = self.run.lines.caller()
        for part in [part for part in self._kept if part in below]:
            if place is not None:
                self._undone[part] = place
        if self._undone and self._handle is None:
            self._handle = hooks.register_module_forward_pre_hook(self._enters)

    def _is_recursion(self) -> bool:
        """Say whether it is ``train`` of a module around that switches this one."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
            frame = frame.f_back
        return frame.f_code is self._recursion

    def _enters(self, module: torch.nn.Module, inputs: Any) -> None:
        place = self._undone.get(module)
        if place is None or not module.training:
            return
        parameters = [*torch.nn.Module.parameters(module)]
        layer = _layer_that_acts_by_mode(module)
        if layer is None or not parameters or any(p.requires_grad for p in parameters):
            return
        del self._undone[module]
        name = type(module).__name__
        message = f"train() also switched the frozen {name} back to training mode; its {layer} is active again"
        self.run.report(Fault(_FROZEN_TRAINS, message, place))

    def finish(self) -> None:
        """Listen no more."""
        self._listening.end()
        if self._handle is not None:
            self._handle.remove()


def _layer_that_acts_by_mode(module: torch.nn.Module) -> str | None:
    """Return the dropout or batch norm that works in training mode in a module."""
    for part in module.modules():
        if part.training and (isinstance(part, _BatchNorm) or (isinstance(part, _DropoutNd) and part.p > 0)):
            return type(part).__name__
    return None
