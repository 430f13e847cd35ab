"""The root: torch is imported, no operation was ever run; it forks a stage per device and set of modules."""

from __future__ import annotations

import gc
import os
import selectors
import socket
import time
from contextlib import suppress
from typing import Any, cast

from drygrad.worker import outcomes, processes, requests, stage
from drygrad.worker.idle_compiler import COMPILER, is_awake
from drygrad.worker.modules import import_compiler, needs_compiler, third_party_imports
from drygrad.worker.wire import Channel

MAX_STAGES = 4
PREPARATION = 60.0
"""Seconds that a stage may take to import modules before it must do without."""
IDLE = 2.0
"""Seconds without anything to do after which what later runs may need is imported."""


class StageProcess:
    """A stage, seen from the root."""

    def __init__(self, pid: int, channel: Channel, key: tuple[str, tuple[Any, ...], frozenset[str]]) -> None:
        self.pid = pid
        self.channel = channel
        self.device, self.options, self.modules = key
        self.ready = False
        self.why: str | None = None
        self.waiting: list[dict[str, Any]] = []
        self.runs: dict[str, dict[str, Any]] = {}
        self.used = self.started = time.monotonic()

    def serves(self, device: str, options: tuple[Any, ...], modules: frozenset[str]) -> bool:
        """Say whether a run can start from here; further modules do no harm."""
        return (self.device, self.options) == (device, options) and self.modules >= modules

    def send(self, message: dict[str, Any]) -> None:
        """Pass a message on, now or when the stage is ready."""
        if self.ready:
            self.channel.send(message)
        else:
            self.waiting.append(message)


class Zygote:
    """Routes messages between the supervisor and the stages."""

    def __init__(self, channel: Channel) -> None:
        self._up = channel
        self._stages: list[StageProcess] = []
        self._shunned: set[str] = set()
        self._has_compiler = is_awake()
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel.read_fd, selectors.EVENT_READ, self._hear)

    def serve(self) -> None:
        """Work until the supervisor goes away or says so."""
        while not self._up.closed:
            heard = self._selector.select(self._until_impatient())
            for key, _ in heard:
                if key.fd in self._selector.get_map():
                    key.data()
            self._end_unready()
            if not heard and self._is_idle():
                self._import_compiler()
        for each in self._stages:
            processes.kill_group(each.pid)

    def _hear(self) -> None:
        for message in self._up.receive():
            kind = message.get("type")
            if kind == "run":
                self._run(message)
            elif kind == "cancel":
                self._cancel(str(message.get("run")))
            elif kind == "prepare":
                modules = frozenset(map(str, message.get("modules") or ())) - self._shunned
                self._stage(str(message.get("device") or "cpu"), _options(message), modules)
            elif kind == "exit":
                self._up.closed = True

    def _run(self, message: dict[str, Any]) -> None:
        plan, run = message.get("plan"), str(message.get("run"))
        why = requests.problem(plan)
        if why is not None:
            self._result(run, {}, "error", why)
            return
        plan = cast("dict[str, Any]", plan)
        modules = frozenset(third_party_imports(plan)) - self._shunned
        if needs_compiler(plan):
            self._import_compiler()
            modules |= {COMPILER}
        chosen = self._stage(str(plan.get("device") or "cpu"), _options(plan), modules)
        if chosen.why is not None:
            self._result(run, plan, "unsupported", chosen.why)
            return
        chosen.used = time.monotonic()
        chosen.runs[run] = plan
        chosen.send({"type": "run", "run": run, "plan": plan})

    def _cancel(self, run: str) -> None:
        for each in self._stages:
            if run in each.runs:
                plan = each.runs.pop(run)
                each.waiting = [m for m in each.waiting if m.get("run") != run]
                each.send({"type": "cancel", "run": run})
                self._result(run, plan, "cancelled")

    def _result(self, run: str, plan: dict[str, Any], outcome: str, *notes: str) -> None:
        self._up.send(outcomes.message(run, outcomes.told(plan, outcome, *notes)))

    def _stage(self, device: str, options: tuple[Any, ...], modules: frozenset[str]) -> StageProcess:
        for each in self._stages:
            if each.serves(device, options, modules):
                return each
        while len(self._stages) >= MAX_STAGES:
            idle = [each for each in self._stages if not each.runs]
            if not idle:
                break
            self._drop(min(idle, key=lambda each: each.used))
        return self._fork(device, options, modules)

    def _fork(self, device: str, options: tuple[Any, ...], modules: frozenset[str]) -> StageProcess:
        ours, theirs = socket.socketpair()
        root = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(ours, theirs, root, (device, options, modules))
        theirs.close()
        fd = ours.detach()
        new = StageProcess(pid, Channel(fd, fd), (device, options, modules))
        self._stages.append(new)
        self._selector.register(fd, selectors.EVENT_READ, lambda: self._listen(new))
        return new

    def _become(self, ours: socket.socket, theirs: socket.socket, root: int, key: tuple[Any, ...]) -> None:
        """Go on as a stage."""
        status = 1
        try:
            processes.die_with(root)
            self._selector.close()
            for fd in {self._up.read_fd, self._up.write_fd, *(each.channel.read_fd for each in self._stages)}:
                os.close(fd)
            ours.close()
            fd = theirs.detach()
            device, options, modules = key
            stage.main(Channel(fd, fd), device, dict(options), sorted(modules))
            status = 0
        finally:
            os._exit(status)

    def _listen(self, each: StageProcess) -> None:
        for message in each.channel.receive():
            if message.get("type") == "staged":
                self._staged(each, message)
            elif message.get("type") == "result":
                if each.runs.pop(str(message["run"]), None) is not None:
                    self._up.send(message)
            elif message.get("run") in each.runs:
                self._up.send(message)
        if each.channel.closed and each in self._stages:
            self._lost(each)

    def _staged(self, each: StageProcess, message: dict[str, Any]) -> None:
        if message["threads"]:
            self._shunned.update(message["threads"])
            self._again(each, each.modules - self._shunned)
            return
        each.ready, each.why = True, message["why"]
        if each.why is not None:
            if message.get("trace"):
                self._up.send({"type": "log", "text": message["trace"]})
            for run, plan in each.runs.items():
                self._result(run, plan, "unsupported", each.why)
            each.runs, each.waiting = {}, []
        for waiting in each.waiting:
            each.channel.send(waiting)
        each.waiting = []

    def _again(self, each: StageProcess, modules: frozenset[str]) -> None:
        """Prepare once more, without some modules: the runs will import them themselves."""
        runs, waiting = each.runs, each.waiting
        self._drop(each)
        other = self._stage(each.device, each.options, modules)
        other.runs.update(runs)
        for message in waiting:
            other.send(message)

    def _lost(self, each: StageProcess) -> None:
        """Bear the end of a stage: while it imported, these modules are not imported ahead again."""
        unready = not each.ready and each.modules
        if unready:
            self._shunned |= each.modules
            self._again(each, frozenset())
            return
        for run, plan in each.runs.items():
            self._result(run, plan, "crashed", "the process that starts runs has exited")
        self._drop(each)

    def _drop(self, each: StageProcess) -> None:
        self._stages.remove(each)
        self._selector.unregister(each.channel.read_fd)
        processes.kill_group(each.pid)
        each.channel.close()
        with suppress(ChildProcessError):
            os.waitpid(each.pid, 0)

    def _import_compiler(self) -> None:
        if not self._has_compiler:
            self._has_compiler = True
            gc.disable()
            import_compiler()
            gc.freeze()
            gc.enable()

    def _is_idle(self) -> bool:
        return not any(each.runs or not each.ready for each in self._stages)

    def _until_impatient(self) -> float | None:
        since = [each.started for each in self._stages if not each.ready]
        if since:
            return max(0.0, min(since) + PREPARATION - time.monotonic())
        return IDLE if self._is_idle() and not self._has_compiler else None

    def _end_unready(self) -> None:
        late = time.monotonic() - PREPARATION
        for each in [each for each in self._stages if not each.ready and each.started <= late]:
            self._lost(each)


def _options(message: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a device is prepared with, as pairs that can be compared."""
    names = ("devices", "gpu_memory") if message.get("device") == "sim" else ()
    return tuple((name, message[name]) for name in names if message.get(name))
