"""The process of one run: takes its surroundings in hand, executes, answers, ends."""

from __future__ import annotations

import faulthandler
import io
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from drygrad.worker import allowance, deadline, devices, outcomes, processes
from drygrad.worker.execute import Execution
from drygrad.worker.reading import bytes_text
from drygrad.worker.run import Run
from drygrad.worker.search import filling
from drygrad.worker.wire import MAX_ANSWER, Channel, tagged, written

_LONG_IMPORTS = 10.0
HIGH_FD = 200
"""Descriptors from here on are ours; a program that closes its standard ones, or the first few, leaves them alone."""


def main(plan: dict[str, Any], answer_fd: int, output_fd: int, dump_fd: int) -> None:
    """Be the process of a run; never returns."""
    status = 1
    try:
        parent = os.getppid()
        os.setpgid(0, 0)
        processes.die_with(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        channel = Channel(-1, _raised(answer_fd))
        take_output(output_fd)
        serve(plan, channel, _raised(dump_fd))
        status = 0
    finally:
        os._exit(status)


def _raised(fd: int) -> int:
    import fcntl

    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
    os.close(fd)
    return high


def take_output(fd: int) -> None:
    """Let everything that is printed, also by native code, go to a descriptor."""
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    for name, number in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(number, "w", closefd=False)
        text = io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=number == 2)
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


def serve(plan: dict[str, Any], channel: Channel, dump_fd: int | None) -> None:
    """Execute the plan and send the result; at the deadline, whatever is known then, and end."""
    timeout = float(plan.get("timeout") or 30.0)
    if dump_fd is not None:
        faulthandler.enable(dump_fd)
    beat = _Beat(channel, timeout, dump_fd)
    answer = Answer(channel)
    begun = time.monotonic()
    try:
        notes = confine(plan)
        plan, searched = filling.fill(plan, beat)
        spent = float((searched or {}).get("seconds") or 0.0)
        starting = time.monotonic() - begun - spent if searched is not None else 0.0
        notes += devices_ready(plan)
        execution = Execution(
            plan,
            lambda phase: channel.send_line(tagged("phase", phase)),
            lambda result: answer.send("interim", result),
        )
        execution.run.imports.add(starting)
        for note in notes:
            execution.run.note(note)
        refuse(execution.run)
        left = max(0.1, timeout - (time.monotonic() - begun - execution.run.imports.allowed))
        main_thread = threading.main_thread().ident or 0
        watchdog = deadline.Watchdog(
            left,
            execution.run.imports,
            lambda: deadline.standing(execution.run, main_thread),
            lambda stands_still: _time_is_up(execution, answer, timeout, stands_still),
            beat,
        )
        result = execution.result()
        watchdog.stop()
        _tell_what_was_written(execution.run, result)
        _tell_of_the_limit(plan, result)
        _tell_of_imports(execution.run, result)
        filling.settle(result, searched)
        if execution.run.is_doubtful and result["seconds"] - execution.run.imports.seconds < timeout / 2:
            answer.send("again", result)
    except Unusable as error:
        result = outcomes.told(plan, "unsupported", str(error))
    except BaseException as error:  # noqa: BLE001 - a fault of ours must not look like the user's
        result = outcomes.failed(plan, error)
    answer.send("result", result)


class _Beat:
    """Says that a run is still importing: who waits for it then waits anew, within the allowance of imports."""

    def __init__(self, channel: Channel, timeout: float, dump_fd: int | None) -> None:
        self._channel, self._timeout, self._dump_fd = channel, timeout, dump_fd
        self._put_off()

    def __call__(self) -> None:
        """Say so."""
        self._channel.send_line(tagged("phase", allowance.IMPORTING))
        self._put_off()

    def _put_off(self) -> None:
        """Have faulthandler say where the run stands, where no thread of ours comes to do it."""
        if self._dump_fd is not None:
            faulthandler.dump_traceback_later(self._timeout + 0.4, file=self._dump_fd)


class Unusable(Exception):
    """The run cannot have the device that it asks for."""


class Answer:
    """Sends the result of the run, once."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._sent = False

    def send(self, kind: str, result: dict[str, Any]) -> None:
        """Send a result: ``partial`` ones may be followed by another, ``interim`` ones are, and ``again`` ones."""
        with self._lock:
            if self._sent:
                return
            self._sent = kind in ("result", "again")
            for stream in (sys.stdout, sys.__stdout__, sys.stderr):
                with suppress(Exception):
                    stream.flush()  # pyright: ignore[reportOptionalMemberAccess]
            self._channel.send_line(_bounded(kind, result))


def _bounded(kind: str, result: dict[str, Any]) -> bytes:
    line = tagged(kind, written(result))
    if len(line) <= MAX_ANSWER:
        return line
    kept: dict[str, Any] = {
        key: value for key, value in result.items() if not isinstance(value, (list, dict)) or key == "notes"
    }
    kept["faults"] = result.get("faults", [])[:100]
    kept["notes"] = [*result.get("notes", [])[:100], f"the result had {len(line):,} bytes; only its faults were kept"]
    return tagged(kind, written(kept))


def _time_is_up(execution: Execution, answer: Answer, timeout: float, stands_still: bool) -> None:
    """Answer in the place of the main thread, which is still at it; then end."""
    main = threading.main_thread().ident or 0
    deadline.report(execution.run, main, timeout, stands_still)
    if not execution.plan.get("repeats"):
        answer.send("partial", execution.snapshot("deadline"))
        answer.send("result", execution.gather("deadline"))
    deadline.exit_now()


def confine(plan: dict[str, Any]) -> list[str]:
    """Enter the sandbox; return what that means for the run."""
    from drygrad.worker.sandbox import child

    return child.confine(plan)


def refuse(run: Run) -> None:
    """Refuse what a dry run does not do wherever Python is asked for it; the notes say what was refused, and where."""
    from drygrad.worker.sandbox import audit

    def refused(kind: str, argument: str, frame: FrameType | None) -> None:
        while frame is not None and not run.lines.is_user(frame.f_code):
            frame = frame.f_back
        where = f" ({run.where(frame.f_code.co_filename, frame.f_lineno)})" if frame is not None else ""
        run.note(f"{audit.Blocked(kind, argument).strerror}{where}".replace("drygrad: ", "", 1))

    audit.install(refused)


def devices_ready(plan: dict[str, Any]) -> list[str]:
    """Set the device up. Raises Unusable where it is not to be had."""
    why = devices.enter(plan)
    if why is not None:
        raise Unusable(why)
    return []


def _tell_what_was_written(run: Run, result: dict[str, Any]) -> None:
    from drygrad.worker.sandbox import child

    result["notes"] += [f"written, but discarded with the run: {path}" for path in child.written()]


def _tell_of_imports(run: Run, result: dict[str, Any]) -> None:
    if run.imports.seconds > _LONG_IMPORTS:
        result["notes"].append(f"imports took {run.imports.seconds:.0f} s, not counted in the run's time limit")


def _tell_of_the_limit(plan: dict[str, Any], result: dict[str, Any]) -> None:
    limit = plan.get("memory_limit")
    if result["outcome"] == "out-of-memory" and limit and plan.get("device") != "cuda":
        result["notes"].append(f"the run could use {bytes_text(limit)} more memory than it started with")
