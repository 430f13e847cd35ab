"""What the woven calls do: loops, blocks, observed names, errors that a handler passes over."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from drygrad.worker import errors, weave
from drygrad.worker.loops import Loops
from drygrad.worker.run import Instrument, Run

_PLAIN: Any = frozenset((bool, int, float, str, bytes, type(None), type, type(sys), type(len), type(lambda: None)))  # pyright: ignore
_overriding_modes: Any = torch._C._len_torch_function_stack  # pyright: ignore
_quiet: Any = torch._C._DisableTorchDispatch  # pyright: ignore


class Hooks:
    """The builtins of a run."""

    def __init__(self, run: Run, loops: Loops, instruments: list[Instrument]) -> None:
        self.blocks: set[int] = set()
        self.blocks_of: dict[str, set[int]] = {}
        """Those of other files."""
        self.tells_elsewhere = False
        """Whether they are."""
        self.last_return: int | None = None
        """The line of the return statement that has run last."""
        self._run = run
        self._loops = loops
        self._instruments = instruments

    def install(self) -> None:
        """Make the calls known to all modules."""
        _let_mean(
            {
                weave.LOOP: self._loops.loop,
                weave.BLOCK: self.block if self._loops.trail else self.blocks.add,
                weave.BLOCK_OF: self.entered,
                weave.ASSIGNED: self.assigned,
                weave.RETURNED: self.returned,
                weave.SWALLOWED: self.swallowed,
            }
        )

    def wait(self, entered: Callable[[int], None]) -> None:
        """Tell somebody else of the blocks of the target's file, too, and nobody of its values; until ``go_on``."""
        _let_mean({weave.BLOCK: entered, weave.ASSIGNED: _nothing, weave.RETURNED: _same})

    def go_on(self, *, elsewhere: bool) -> None:
        """Forget the blocks so far; take note of those of other files only if they are of interest."""
        self.blocks.clear()
        self.blocks_of.clear()
        self.tells_elsewhere = elsewhere
        self.install()

    def end(self, kind: type[BaseException]) -> None:
        """Raise something wherever the program comes to such a call, until ``install``."""

        def over(*_: Any) -> Any:
            raise kind

        _let_mean(dict.fromkeys(weave.NAMES, over))

    @contextmanager
    def unnoticed(self) -> Generator[None]:
        """Forget the blocks that run within."""
        blocks, elsewhere = set(self.blocks), {path: set(lines) for path, lines in self.blocks_of.items()}
        try:
            yield
        finally:
            self.blocks.intersection_update(blocks)
            for path, lines in self.blocks_of.items():
                lines.intersection_update(elsewhere.get(path, ()))

    def block(self, line: int) -> None:
        """Take note of a block of the target's file that runs."""
        self.blocks.add(line)
        if self._loops.trail is not None:
            self._loops.trail.enters(line)

    def entered(self, path: str, line: int) -> None:
        """Take note of a block of another file that runs."""
        self.blocks_of.setdefault(path, set()).add(line)
        if self._loops.trail is not None:
            self._loops.trail.enters((path, line))

    def elsewhere(self) -> list[dict[str, Any]]:
        """Return the blocks of other files for the result."""
        blocks = list(self.blocks_of.items()) if self.tells_elsewhere else []
        return [{"path": path, "lines": sorted(lines)} for path, lines in blocks]

    def assigned(self, line: int, name: str, value: Any) -> None:
        """Tell the instruments of a name that was bound."""
        run = self._run
        if type(value) in _PLAIN or run.transforms or run.resting is not None:
            return
        if type(value) is not torch.Tensor or _overriding_modes():
            run.tell("assigned", line, name, value)
            return
        for hook in run.hooks("assigned"):  # as in Run.call, but for what would cost most: nothing is computed with
            try:
                hook(line, name, value)
            except Exception as error:  # noqa: BLE001 - as there
                run.switch_off(hook, error)

    def returned(self, line: int, value: Any) -> Any:
        """Tell the instruments of a value that is returned, and pass it on."""
        self.last_return = line
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
                    self._run.report(fault, error)


def _let_mean(meanings: Mapping[str, Callable[..., Any]]) -> None:
    for name, value in meanings.items():
        setattr(builtins, name, value)


def _nothing(*_: Any) -> None:
    return None


def _same(_: int, value: Any) -> Any:
    return value
