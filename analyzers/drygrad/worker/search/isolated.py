"""Where a search or an experiment runs: a process forked from that of the run, in its sandbox; its effects end with it.

Where there is no fork the search runs in the process of the run itself, before it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Callable

import torch

from drygrad.worker import allowance, processes

_STARTING = allowance.SECONDS
"""Seconds that the imports and the statements before the call may take."""
_GRACE = 1.0
WAITING = 2.5
"""Times the bound of a search that it may last where the machine is busy with something else, or the code waits."""

Tell = Callable[[dict[str, Any]], None]

_heard: set[int] = set()
"""Where this process reads what others tell it that do work for it."""


class Overdue(BaseException):
    """An attempt takes too long; no handler of the user's shall catch it."""


def apart(work: Callable[[Tell], dict[str, Any]], seconds: float, beat: Callable[[], None]) -> dict[str, Any] | None:
    """Return the answer of ``work``, done in a process of its own; the last that it told, where it does not end.

    ``beat`` is called now and then until it has begun.
    """
    if not processes.CAN_FORK:
        return work(lambda _: None)
    return _told(work, lambda reading: _last_told(reading, seconds, beat))


def until(work: Callable[[], dict[str, Any]], end: float) -> dict[str, Any] | None:
    """Return the answer of ``work``, done in a process of its own; None where there is none at that time."""
    only = Apart(work, end)
    while not Apart.ended_of([only]):
        pass
    return only.answer


class Apart:
    """Work that a process of its own does, while this one goes on: whoever begins it asks what has ended."""

    def __init__(self, work: Callable[[], dict[str, Any]], end: float) -> None:
        self.end = end
        """When, on the monotonic clock, it has to be done."""
        self.answer: dict[str, Any] | None = None
        """What the work has come to, once it has ended; None where there is nothing at that time."""
        self.status: int | None = None
        """The status that the process has ended with, the signal below 0; None where it was left without an answer."""
        self._pending = b""
        self._left = False
        self._pid, self._reading = _begun(lambda _: work())

    @staticmethod
    def ended_of(begun: Sequence[Apart]) -> list[Apart]:
        """Wait until something happens; return which of these have ended by then."""
        first = min(one.end for one in begun)
        reading = {one._reading: one for one in begun}
        ready, _, _ = select.select([*reading], [], [], max(0.0, first - time.monotonic()))
        now = time.monotonic()
        ended = [one for one in begun if (one._reading in ready and one._has_ended()) or one.end <= now]
        for one in ended:
            one.leave()
        return ended

    def leave(self) -> None:
        """Wait for it no more: the process ends where it still works."""
        if not self._left:
            self._left = True
            _leave(self._pid, self._reading)

    def _has_ended(self) -> bool:
        """Read what there is; say whether it is the end."""
        data = os.read(self._reading, 1 << 16)
        self._pending += data
        if self._pending.endswith(b"\n"):
            self.answer = json.loads(self._pending)
        if not data:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return not data or self.answer is not None


def _told(
    work: Callable[[Tell], dict[str, Any]], read: Callable[[int], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """Return what is read of a process that does the work; it ends when nobody reads any more."""
    pid, reading = _begun(work)
    try:
        return read(reading)
    finally:
        _leave(pid, reading)


def _begun(work: Callable[[Tell], dict[str, Any]]) -> tuple[int, int]:
    """Begin work in a process; return its number, and where to read what it tells."""
    reading, writing = os.pipe()
    _heard.add(reading)
    pid = os.fork()
    if pid == 0:
        for fd in _heard:  # its own, and those of its siblings: these end when nobody reads any more
            os.close(fd)
        _heard.clear()
        _be_apart(work, writing)
    os.close(writing)
    return pid, reading


def _leave(pid: int, reading: int) -> None:
    _heard.discard(reading)
    os.close(reading)
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _be_apart(work: Callable[[Tell], dict[str, Any]], fd: int) -> None:
    def tell(message: dict[str, Any]) -> None:
        with suppress(OSError):
            os.write(fd, json.dumps(message).encode() + b"\n")

    status = 1
    try:
        silence()
        # Behind a fork, torch makes its pool of threads anew at the first use, and threads of a backward race for that.
        torch.set_num_threads(torch.get_num_threads())
        threading.Thread(target=_end_when_unheard, args=(fd,), name="drygrad", daemon=True).start()
        tell(work(tell))
        status = 0
    finally:
        os._exit(status)


def silence() -> None:
    """Let nothing that the attempts print reach the output of the run."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _end_when_unheard(fd: int) -> None:
    """End this process when the run no longer reads."""
    poll = select.poll()
    poll.register(fd, 0)
    poll.poll()
    os._exit(1)


def _last_told(fd: int, seconds: float, beat: Callable[[], None]) -> dict[str, Any] | None:
    """Read until the end or until the time is up, which is counted from the first message on."""
    until = time.monotonic() + _STARTING
    pending, last, begun = b"", None, False
    while True:
        left = max(0.0, until - time.monotonic())
        ready, _, _ = select.select([fd], [], [], left if begun else min(left, allowance.BEAT))
        if not ready and not begun and left > allowance.BEAT:
            beat()
            continue
        data = os.read(fd, 1 << 16) if ready else b""
        if not data:
            return last
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "begun" in message:
                begun = begun or (until := time.monotonic() + seconds * WAITING + _GRACE) > 0
            else:
                last = message


def alarm(seconds: float) -> None:
    """Raise Overdue in the main thread after some seconds; 0 takes it back."""
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.0))


def _ring(number: int, frame: Any) -> None:
    raise Overdue
