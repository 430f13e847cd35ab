"""Weights that ``load_state_dict(strict=False)`` leaves out, all of them."""

from __future__ import annotations

from functools import wraps
from typing import Any, ClassVar

import torch

from drygrad.worker.run import Fault, Instrument, Run

_CODE = "DG813"


class Loading(Instrument):
    """Looks at which keys of a checkpoint a module has taken."""

    name: ClassVar[str] = "loading"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._original: Any = None

    def start(self) -> None:
        """Listen to ``load_state_dict``."""
        kind: Any = torch.nn.Module
        self._original = original = kind.load_state_dict

        @wraps(original)
        def heard(module: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(module, state, *args, **kwargs)
            self._compare(module, state, result)
            return result

        kind.load_state_dict = heard

    def finish(self) -> None:
        """Listen no more."""
        if self._original is not None:
            kind: Any = torch.nn.Module
            kind.load_state_dict = self._original

    def _compare(self, module: Any, state: Any, result: Any) -> None:
        missing: set[str] = set(getattr(result, "missing_keys", ()))
        unexpected: list[str] = list(getattr(result, "unexpected_keys", ()))
        own = {name for name, _ in module.named_parameters()}
        if not own or not own <= missing or not unexpected or len(unexpected) < len(state):
            return
        prefix = _prefix(unexpected, own)
        hint = f": they begin with {prefix!r}" if prefix else f", such as {unexpected[0]!r} for {min(own)!r}"
        message = f"strict=False: none of the {len(unexpected)} entries was loaded{hint}; the weights are random"
        self.run.report(Fault(_CODE, message, self.run.lines.caller()))


def _prefix(found: list[str], own: set[str]) -> str:
    """Return what stands before the module's own names in all entries."""
    for name in found:
        for mine in own:
            if name.endswith("." + mine):
                prefix = name[: -len(mine)]
                return prefix if all(other.startswith(prefix) for other in found) else ""
    return ""
