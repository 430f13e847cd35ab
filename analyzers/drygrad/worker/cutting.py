"""What comes after a loop that the run has left early: there the program is not in the state that it would be in.

Two stacks tell it, that of the loop and that of the fault: where they part, the fault stands further on.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from drygrad.worker.texts import tree_of

if TYPE_CHECKING:
    from drygrad.worker.lines import Lines

_MOST = 64
Stack = tuple[tuple[CodeType, int], ...]
"""Functions of the user's and the lines in which they are, the outermost first."""


class Cuts:
    """The loops that were left early, each with the stack that it was left with."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._stacks: dict[Stack, int] = {}
        self._begun: Stack = ()

    def begin(self) -> None:
        """Take note that the target is called now, in the midst of a program: no error passes what is above."""
        self._begun = self._users(_frames())

    def add(self, line: int) -> None:
        """Remember that the loop at a line is left now."""
        if len(self._stacks) < _MOST:
            self._stacks[self._users(_frames())] = line

    def before(self, trace: TracebackType | None = None) -> dict[str, Any] | None:
        """Return which loop was left before what happens now, or before what an error has passed.

        It is left ``for_good`` where no loop goes around both: then there is no pass to come that would be whole.
        """
        if not self._stacks:
            return None
        here = (*self._begun, *self._users(_raised(trace))) if trace is not None else self._users(_frames())
        found = [(line, good) for stack, line in self._stacks.items() for good in self._parted(stack, here)]
        if not found:
            return None
        line, good = max(found, key=lambda pair: pair[1])
        return {"line": line, "for_good": good}

    def _users(self, frames: Iterator[tuple[CodeType, int]]) -> Stack:
        return tuple((code, line) for code, line in frames if self._lines.is_user(code))

    def _parted(self, loop: Stack, here: Stack) -> Iterator[bool]:
        """Yield whether no loop goes around both stacks, if the second one stands further on."""
        alone = True
        for (code, left_at), (other, line) in zip(loop, here):
            if code is not other:  # one line has called both: what has the loop is over
                yield alone
                return
            loops = self._loops(code)
            if left_at != line:
                ends = max((end for start, end in loops if start == left_at), default=left_at)
                if line > ends:
                    yield alone and not any(start < left_at and line <= end for start, end in loops)
                return
            alone = alone and not any(start < line <= end for start, end in loops)

    def _loops(self, code: CodeType) -> Sequence[tuple[int, int]]:
        """Return the first and the last line of each loop in a file."""
        source = self._lines.source(code.co_filename)
        tree = tree_of("\n".join(source)) if source is not None else ast.Module([], [])
        kinds = (ast.For, ast.AsyncFor, ast.While)
        return [(node.lineno, node.end_lineno or 0) for node in ast.walk(tree) if isinstance(node, kinds)]


def _frames() -> Iterator[tuple[CodeType, int]]:
    """Yield the functions that are at work, the outermost first."""
    found: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return reversed(found)


def _raised(trace: TracebackType) -> Iterator[tuple[CodeType, int]]:
    """Yield the functions that an error has passed, the outermost first."""
    step: TracebackType | None = trace
    while step is not None:
        yield step.tb_frame.f_code, step.tb_lineno
        step = step.tb_next
