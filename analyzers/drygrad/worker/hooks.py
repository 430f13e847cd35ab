"""What the woven calls do: loops, blocks, observed names, errors that a handler passes over."""

from __future__ import annotations

import builtins
import sys
from typing import Any, Callable

import torch

from drygrad.worker import errors, weave
from drygrad.worker.loops import Loops
from drygrad.worker.run import Instrument, Run, overridden

_PLAIN: Any = frozenset((bool, int, float, str, bytes, type(None), type, type(sys), type(len), type(overridden)))  # pyright: ignore
_quiet: Any = torch._C._DisableTorchDispatch  # pyright: ignore


class Hooks:
    """The builtins of a run."""

    def __init__(self, run: Run, loops: Loops, instruments: list[Instrument]) -> None:
        self.blocks: set[int] = set()
        self._run = run
        self._loops = loops
        self._instruments = instruments
        self._assigned: list[Callable[..., None]] = overridden(instruments, "assigned")

    def install(self) -> None:
        """Make the calls known to all modules."""
        known: dict[str, Any] = {
            weave.LOOP: self._loops.loop,
            weave.BLOCK: self.blocks.add,
            weave.ASSIGNED: self.assigned,
            weave.RETURNED: self.returned,
            weave.SWALLOWED: self.swallowed,
        }
        for name, value in known.items():
            setattr(builtins, name, value)

    def assigned(self, line: int, name: str, value: Any) -> None:
        """Tell the instruments of a name that was bound."""
        if self._assigned and type(value) not in _PLAIN:
            with _quiet():
                for hook in self._assigned:
                    hook(line, name, value)

    def returned(self, line: int, value: Any) -> Any:
        """Tell the instruments of a value that is returned, and pass it on."""
        self.assigned(line, "return", value)
        return value

    def swallowed(self) -> None:
        """Explain an error of torch's that a handler merely tells or passes over."""
        error = sys.exc_info()[1]
        if error is not None and isinstance(error, Exception):
            with _quiet():
                place = self._run.lines.place_of_error(error)
                fault = errors.explained(self._instruments, error, place)
                if fault is None and errors.is_torch_error(error, self._run):
                    fault = errors.user_error(error, place)
                if fault is not None:
                    self._run.report(fault)
