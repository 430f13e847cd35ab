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
from contextlib import suppress
from typing import Any, Callable

from drygrad.worker import processes

_STARTING = 20.0
"""Seconds that the imports and the statements before the call may take."""
_GRACE = 1.0
WAITING = 2.5
"""Times the bound of a search that it may last where the machine is busy with something else, or the code waits."""

Tell = Callable[[dict[str, Any]], None]


class Overdue(BaseException):
    """An attempt takes too long; no handler of the user's shall catch it."""


def apart(work: Callable[[Tell], dict[str, Any]], seconds: float) -> dict[str, Any] | None:
    """Return the answer of ``work``, done in a process of its own; the last that it told, where it does not end."""
    if not processes.CAN_FORK:
        return work(lambda _: None)
    return _told(work, lambda reading: _last_told(reading, seconds))


def until(work: Callable[[], dict[str, Any]], end: float) -> dict[str, Any] | None:
    """Return the answer of ``work``, done in a process of its own; None where there is none at that time."""
    return _told(lambda _: work(), lambda reading: _last_before(reading, end))


def _told(
    work: Callable[[Tell], dict[str, Any]], read: Callable[[int], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """Return what is read of a process that does the work; it ends when nobody reads any more."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_apart(work, writing)
    os.close(writing)
    try:
        return read(reading)
    finally:
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


def _last_told(fd: int, seconds: float) -> dict[str, Any] | None:
    """Read until the end or until the time is up, which is counted from the first message on."""
    until = time.monotonic() + _STARTING
    pending, last, begun = b"", None, False
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, until - time.monotonic()))
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


def _last_before(fd: int, end: float) -> dict[str, Any] | None:
    """Read the one message of a process; None where it has said nothing whole by then."""
    pending = b""
    while not pending.endswith(b"\n"):
        ready, _, _ = select.select([fd], [], [], max(0.0, end - time.monotonic()))
        data = os.read(fd, 1 << 16) if ready else b""
        if not data:
            return None
        pending += data
    return json.loads(pending)


def alarm(seconds: float) -> None:
    """Raise Overdue in the main thread after some seconds; 0 takes it back."""
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.0))


def _ring(number: int, frame: Any) -> None:
    raise Overdue
