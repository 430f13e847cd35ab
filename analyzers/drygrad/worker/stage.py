"""A stage: a process with the device and the third-party modules ready, from which every run is forked."""

from __future__ import annotations

import gc
import importlib
import os
import re
import selectors
import signal
import socket
import tempfile
import time
import traceback
from contextlib import suppress
from typing import Any

from drygrad.worker import allowance, devices, outcomes, processes
from drygrad.worker.capture import Capture
from drygrad.worker.devices import cuda
from drygrad.worker.sandbox import child as confinement
from drygrad.worker.sandbox import limits
from drygrad.worker.wire import MAX_ANSWER, Channel, untagged, written

GRACE = 1.0
"""Seconds that a run gets after its deadline to say where it stands."""
MEMORY_LOOK = 0.1
"""Seconds between two looks at the memory that is left, while there are runs."""
MAX_PHASES = 1000
"""So many are passed on of a run."""
MAX_INTERIMS = 50
"""So many times a run may say what it knows by now."""
_FORECASTS = ("torch.fx.experimental.symbolic_shapes",)
"""What torch's functions of shapes import at their first use, with all of SymPy: every forecast would wait for it."""
_PHASE = re.compile(r"[a-z0-9 :,-]{1,79}\Z")


class RunProcess:
    """A run in flight, seen from above."""

    def __init__(self, run: str, plan: dict[str, Any]) -> None:
        self.run = run
        self.plan = {**plan, "memory_limit": plan.get("memory_limit") or limits.share_of_memory()}
        self.timeout = float(plan.get("timeout") or 30.0)
        self.begun = time.monotonic()
        self.deadline = self.begun + self.timeout + GRACE
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours.detach(), -1, MAX_ANSWER)
        self.child_fd = theirs.detach()
        self.capture = Capture()
        self.dump_fd = _unnamed_file()
        self.pid = 0
        self.partial: str | None = None
        self.first: tuple[str, dict[str, Any]] | None = None
        """What was answered, and printed, by a run that this one repeats, or that is to be repeated."""
        self.phases = self.interims = 0
        self.answered = False
        self.overdue = False

    def put_off(self) -> None:
        """Let the time count anew, for the run is still importing; no longer than imports may take in all."""
        most = self.begun + allowance.SECONDS + self.timeout
        self.deadline = min(most, time.monotonic() + self.timeout) + GRACE

    def fds(self) -> tuple[int, ...]:
        """Return the descriptors that belong to the stage alone."""
        return self.channel.read_fd, self.capture.read_fd

    def close_child_side(self) -> None:
        """Close what only the child needs."""
        os.close(self.child_fd)
        os.close(self.capture.write_fd)

    def close(self) -> None:
        """Close the rest."""
        for fd in (*self.fds(), self.dump_fd):
            os.close(fd)

    def dump(self) -> str:
        """Return what faulthandler wrote."""
        os.lseek(self.dump_fd, 0, os.SEEK_SET)
        return os.read(self.dump_fd, 1 << 20).decode("utf-8", "replace")


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        with suppress(OSError):
            return os.memfd_create("drygrad")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Stage:
    """Serves ``run`` and ``cancel`` from the zygote above; its answers go back the same way."""

    def __init__(self, channel: Channel) -> None:
        self._up = channel
        self._runs: dict[str, RunProcess] = {}
        self._forecasts = False
        """Whether what forecasts need has been imported."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel.read_fd, selectors.EVENT_READ, self._hear)
        self._wake = _wake_on_children()
        self._selector.register(self._wake[0], selectors.EVENT_READ, self._reap)

    def serve(self) -> None:
        """Work until the zygote goes away."""
        processes.adopt_orphans()
        while not self._up.closed:
            for key, _ in self._selector.select(self._until_next_deadline()):
                if key.fd in self._selector.get_map():
                    key.data()
            self._end_overdue()
            self._spare_the_machine()
        for run in self._runs.values():
            processes.kill_group(run.pid)
        self._end_orphans()

    def _hear(self) -> None:
        for message in self._up.receive():
            if message.get("type") == "run":
                self._start(str(message["run"]), message["plan"])
            elif message.get("type") == "cancel" and message.get("run") in self._runs:
                self._settle(self._runs[message["run"]], "cancelled")

    def _start(self, name: str, plan: dict[str, Any], first: tuple[str, dict[str, Any]] | None = None) -> None:
        """Begin a run; ``first`` is the answer of the one that it repeats, and stands if there is no other."""
        if plan.get("forecast") and not self._forecasts:
            self._forecasts = True
            if confinement.may_import_ahead():
                with confinement.importing():
                    import_ahead([*_FORECASTS])
                gc.freeze()
        run = RunProcess(name, {"may_repeat": True, **plan})
        run.first = first
        run.pid = os.fork()
        if run.pid == 0:
            self._become(run)
        with suppress(OSError):
            os.setpgid(run.pid, run.pid)
        run.close_child_side()
        self._runs[name] = run
        self._selector.register(run.channel.read_fd, selectors.EVENT_READ, lambda: self._listen(run))
        self._selector.register(run.capture.read_fd, selectors.EVENT_READ, lambda: self._pump(run))

    def _become(self, run: RunProcess) -> None:
        """Go on as the process of a run."""
        from drygrad.worker import child

        self._selector.close()
        inherited = [self._up.read_fd, *self._wake]
        for other in (*self._runs.values(), run):
            inherited += other.fds()
        for other in self._runs.values():
            inherited.append(other.dump_fd)
        for fd in set(inherited):
            os.close(fd)
        child.main(run.plan, run.child_fd, run.capture.write_fd, run.dump_fd)

    def _pump(self, run: RunProcess) -> None:
        if not run.capture.pump():
            self._selector.unregister(run.capture.read_fd)

    def _listen(self, run: RunProcess) -> None:
        """Hear a run, which may have any program's words: an answer is passed on unread."""
        for line in run.channel.lines():
            kind, text = untagged(line)
            if kind == "phase" and run.phases < MAX_PHASES and _PHASE.match(text):
                run.phases += 1
                if text == allowance.IMPORTING:
                    run.put_off()
                self._up.send({"type": "phase", "run": run.run, "phase": text})
            elif kind == "interim" and run.interims < MAX_INTERIMS:
                run.interims += 1
                self._up.send({"type": "interim", "run": run.run, "answer": text})
            elif kind == "partial":
                run.partial = text
            elif kind == "again":
                run.first = text, run.capture.as_json()
                processes.kill_group(run.pid)
            elif kind == "result":
                self._answer(run, text)
                processes.kill_group(run.pid)
        if run.channel.flooded and not run.answered:
            self._settle(run, "error", f"the run's answer exceeds {MAX_ANSWER >> 20} MiB")
        if run.channel.closed and run.channel.read_fd in self._selector.get_map():
            self._selector.unregister(run.channel.read_fd)

    def _answer(self, run: RunProcess, answer: str, output: dict[str, Any] | None = None) -> None:
        if not run.answered:
            run.answered = True
            output = output or run.capture.as_json()
            self._up.send({"type": "result", "run": run.run, "answer": answer, "output": output})

    def _settle(self, run: RunProcess, outcome: str, *notes: str) -> None:
        processes.kill_group(run.pid)
        self._answer(run, written(outcomes.told(run.plan, outcome, *notes)))

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake[0], 4096)
        by_pid = {run.pid: run for run in self._runs.values()}
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in by_pid:
                    self._ended(by_pid[pid], status)

    def _ended(self, run: RunProcess, status: int) -> None:
        os.set_blocking(run.channel.read_fd, False)
        with suppress(BlockingIOError):
            while not run.channel.closed:
                self._listen(run)
        processes.kill_group(run.pid)
        again = run.first if not run.answered and not run.plan.get("repeats") else None
        if not run.answered and again is None:
            answer, output = run.first or (self._without_result(run, status), None)
            self._answer(run, answer, output)
        del self._runs[run.run]
        for fd in run.fds():
            if fd in self._selector.get_map():
                self._selector.unregister(fd)
        run.close()
        self._end_orphans()
        if again is not None:
            self._start(run.run, {**run.plan, "may_repeat": False, "repeats": True}, again)

    def _without_result(self, run: RunProcess, status: int) -> str:
        if run.partial is not None:
            return run.partial
        if run.overdue:
            return written(outcomes.overdue(run.plan, run.timeout, run.dump()))
        return written(outcomes.crashed(run.plan, status, run.dump()))

    def _end_orphans(self) -> None:
        """Kill what runs have left behind; those in flight keep theirs, unless these have run away from them."""
        known = {run.pid for run in self._runs.values()}
        for pid in processes.children(os.getpid()):
            if pid not in known:
                processes.kill_group(pid)

    def _until_next_deadline(self) -> float | None:
        waiting = [run.deadline for run in self._runs.values() if not run.overdue]
        return min(MEMORY_LOOK, max(0.0, min(waiting) - time.monotonic())) if waiting else None

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for run in self._runs.values():
            if run.deadline <= now and not run.overdue:
                run.overdue = True
                processes.kill_group(run.pid)

    def _spare_the_machine(self) -> None:
        """End the run that has taken most, where the memory comes to its end: it counts what no limit does.

        That is many processes, and files in memory.
        """
        running = [run for run in self._runs.values() if not run.answered]
        if running and limits.is_scarce():
            most = max(running, key=lambda run: processes.memory(run.pid))
            self._settle(most, "out-of-memory", "stopped because the machine was almost out of memory")


def _wake_on_children() -> tuple[int, int]:
    """Make a pipe that becomes readable when a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _awake)
    return reader, writer


def _awake(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up pipe has told already."""


def main(channel: Channel, device: str, options: dict[str, Any], modules: list[str]) -> None:
    """Be a stage: prepare, say what came of it, serve."""
    staged: dict[str, Any] = {"type": "staged", "why": None, "threads": [], "failed": {}}
    try:
        staged["why"] = devices.prepare(device, options)
        if confinement.may_import_ahead():
            with confinement.importing():
                staged.update(import_ahead(modules))
        gc.collect()
        gc.freeze()
    except Exception as error:  # noqa: BLE001 - whatever a device does wrong is told to the user
        staged["why"] = f"{type(error).__name__}: {error}"
        staged["trace"] = traceback.format_exc()
    channel.send(staged)
    Stage(channel).serve()


def import_ahead(modules: list[str]) -> dict[str, Any]:
    """Import third-party modules; return those that failed, with the reason, and the first that prevents a fork.

    That is one which starts threads, or speaks to the driver of a GPU.
    """
    failed: dict[str, str] = {}
    before = processes.threads()
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 - the run will meet the same error, at the user's line
            failed[name] = f"{type(error).__name__}: {error}"
        if processes.threads() > before or cuda.is_touched():
            return {"failed": failed, "threads": [name]}
    return {"failed": failed, "threads": []}
