"""Where a run stands when its time is up: the line, the operation in flight, and whether it can ever go on."""

from __future__ import annotations

import dis
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from drygrad.worker import allowance, waits
from drygrad.worker.allowance import Imports
from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.run import Fault, Place, Run
from drygrad.worker.watch import Watch

_DISPATCH = Watch.__torch_dispatch__.__code__
_MAX_STACK = 50
_BUSY = 0.2
"""A thread that computes for less than this share of its time is waiting; the start of a run takes some, too."""
_BEFORE = 0.75
"""After this share of the time it is watched where the run stands, to tell in the end whether it has moved."""
_LOOKS = 12
_LEAST = 0.001
_JUMPS = {code for name, code in dis.opmap.items() if "JUMP" in name}
"""Not all that may jump: ``FOR_ITER`` and ``SEND`` wait for what they call."""


Standing = tuple[int, tuple[tuple[int, int], ...]]
"""The operation in flight and the instruction of each frame, by identity: where a thread stands."""


def standing(run: Run, main: int) -> Standing:
    """Return where the thread ``main`` stands now."""
    frame = sys._current_frames().get(main)  # pyright: ignore[reportPrivateUsage]
    at: list[tuple[int, int]] = []
    if frame is not None and _jumps(frame):
        # The interpreter lets other threads look where a loop begins again: seen there each time, it has still moved.
        at.append((time.monotonic_ns(), 0))
    while frame is not None:
        at.append((id(frame), frame.f_lasti))
        frame = frame.f_back
    return id(run.op), tuple(at)


def _jumps(frame: FrameType) -> bool:
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _JUMPS


def report(run: Run, main: int, seconds: float, stands_still: bool) -> None:
    """Report the deadline, as the fault of the line where the thread ``main`` stands, and the stack."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    stack = _user_frames(frames.get(main), run.lines)
    at = run.lines.place(stack[0][0]) if stack else None
    wait = waits.endless(frames, run.lines, main)
    if wait is not None:
        place = run.lines.place(wait.culprit) or at
        related = [("the main thread is here", at)] if at is not None and place is not at else []
        message = f"{wait.reason}; nothing in this process can ever end the wait"
        fault = Fault("DG604", message, place, related=related)
    else:
        severity = "info" if wanted_processor(main) < _BUSY * seconds else None
        fault = Fault("DG902", _sentence(run, frames.get(main), seconds, stands_still), at, severity=severity)
    run.report(fault)
    places = [{**_line(run.lines, i), "function": name} for i, name in stack[:_MAX_STACK]]
    run.result["error"] = {"type": "deadline", "message": fault.message, "at": at and at._asdict(), "stack": places}


def wanted_processor(main: int) -> float:
    """Return for how many seconds the main thread has computed, or stood in the queue of a machine with much to do.

    A thread that wants no processor waits for what comes from outside, as a server or a reporter does.
    """
    known = _scheduled()
    if known is None:
        clock = getattr(time, "pthread_getcpuclockid", None)
        return time.clock_gettime(clock(main)) if clock is not None else float("inf")
    return sum(known)


def queued() -> float:
    """Return for how many seconds the main thread has stood in the queue of a machine with much to do, as far as known.

    That is no time in which it waits for something else.
    """
    known = _scheduled()
    return known[1] if known is not None else 0.0


def _scheduled() -> tuple[float, float] | None:
    """Return for how many seconds the main thread has computed, and stood in the queue; None where nothing tells."""
    try:
        # Of a forked process, the number of the main thread's object is that of its parent's.
        with open(f"/proc/self/task/{os.getpid()}/schedstat", encoding="ascii") as file:
            computed, waited, _ = map(int, file.read().split())
    except (OSError, ValueError):
        return None
    return computed / 1e9, waited / 1e9


def _sentence(run: Run, frame: FrameType | None, seconds: float, stands_still: bool) -> str:
    if run.imports.are_under_way:
        return f"still importing after {run.imports.seconds:.0f} s; imports may take {allowance.SECONDS:g} s"
    where = run.op.name if run.op is not None and _in_operation(frame, run.lines) else "this line"
    if stands_still:
        return f"still in {where} after {seconds:g} s: no progress for the last {seconds * (1 - _BEFORE):g} s"
    return f"the run reached its limit of {seconds:g} s in {where}; it was still making progress"


def _in_operation(frame: FrameType | None, lines: Lines) -> bool:
    """Say whether an operation is being executed, seen from the innermost frame."""
    while frame is not None and not lines.is_user(frame.f_code):
        if frame.f_code is _DISPATCH:
            return True
        frame = frame.f_back
    return False


def _line(lines: Lines, instruction: Instruction) -> dict[str, Any]:
    place = lines.place(instruction)
    assert place is not None
    return Place(place.path, place.line)._asdict()


def _user_frames(frame: FrameType | None, lines: Lines) -> list[tuple[Instruction, str]]:
    found: list[tuple[Instruction, str]] = []
    while frame is not None:
        if lines.is_user(frame.f_code):
            found.append((Instruction(frame.f_code, frame.f_lasti), frame.f_code.co_name))
        frame = frame.f_back
    return found


class Watchdog:
    """Calls back in a thread of its own when the time is up, and says whether all that was seen at the end was one.

    Its clock stands still while the run imports something, as long as that may take; ``beat`` is called meanwhile.
    """

    def __init__(
        self,
        seconds: float,
        imports: Imports,
        look: Callable[[], Standing],
        bark: Callable[[bool], None],
        beat: Callable[[], None],
    ) -> None:
        self._over = threading.Event()
        self._seconds = seconds
        self._imports = imports
        self._begun = time.monotonic() - imports.allowed
        self._beat = beat
        self._look = look
        self._bark = bark
        self._thread = threading.Thread(target=self._watch, name=waits.OURS, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        seen: set[Standing] = set()
        for look in range(_LOOKS + 1):
            if self._is_over_before(self._seconds * (_BEFORE + (1 - _BEFORE) * look / _LOOKS)):
                return
            seen.add(self._look())
        self._bark(len(seen) == 1)

    def _is_over_before(self, seconds: float) -> bool:
        """Wait until the run has taken so many seconds of its own time; say whether it has ended by then."""
        while True:
            left = seconds - (time.monotonic() - self._begun - self._imports.allowed)
            if left <= 0:
                return self._over.is_set()
            if self._over.wait(max(min(left, allowance.BEAT), _LEAST)):
                return True
            if self._imports.are_under_way:
                self._beat()

    def stop(self) -> None:
        """Let the run end in peace."""
        self._over.set()


def exit_now(status: int = 0) -> None:
    """End the process without any of the user's code: no destructors, no handlers at exit."""
    os._exit(status)
