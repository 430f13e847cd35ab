"""Weights that ``load_state_dict(strict=False)`` leaves out, all of them."""

from __future__ import annotations

from typing import ClassVar

import torch

from drygrad.worker.listening import Heard, Listening
from drygrad.worker.run import Fault, Instrument, Run

_CODE = "DG813"


class Loading(Instrument):
    """Looks at which keys of a checkpoint a module has taken."""

    name: ClassVar[str] = "loading"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._listening = Listening(run)

    def start(self) -> None:
        """Listen to ``load_state_dict``."""
        self._listening.after(torch.nn.Module, "load_state_dict", self._loaded)

    def finish(self) -> None:
        """Listen no more."""
        self._listening.end()

    def _loaded(self, heard: Heard) -> None:
        missing: set[str] = set(getattr(heard.result, "missing_keys", ()))
        unexpected: list[str] = list(getattr(heard.result, "unexpected_keys", ()))
        state = heard.argument("state_dict", 1)
        own = {name for name, _ in heard.args[0].named_parameters()}
        if not own or not own <= missing or not unexpected or len(unexpected) < len(state):
            return
        prefix = _prefix(unexpected, own)
        hint = f": they begin with {prefix!r}" if prefix else f", such as {unexpected[0]!r} for {min(own)!r}"
        message = f"strict=False: none of the {len(unexpected)} entries was loaded{hint}; the weights stay random"
        self.run.report(Fault(_CODE, message, self.run.lines.caller()))


def _prefix(found: list[str], own: set[str]) -> str:
    """Return what stands before the module's own names in all entries."""
    for name in found:
        for mine in own:
            if name.endswith("." + mine):
                prefix = name[: -len(mine)]
                return prefix if all(other.startswith(prefix) for other in found) else ""
    return ""
