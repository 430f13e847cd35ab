"""Starts the real worker by path and speaks its wire, without a supervisor."""

from __future__ import annotations

import itertools
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from drygrad.dryrun import failures, wire

PATIENCE = 300.0
"""Seconds until a worker is given up, however busy the machine is."""

PYTHON = os.environ.get("DRYGRAD_WORKER_PYTHON", sys.executable)
"""The interpreter that has the torch to be tested."""
WORKER = Path(__file__).parents[2] / "analyzers" / "drygrad" / "worker"


class WorkerClient:
    """A worker process; as a context manager it is gone at the end of the block."""

    def __init__(
        self,
        *arguments: str,
        python: str = PYTHON,
        worker: Path = WORKER,
        launcher: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.process = subprocess.Popen(
            [*launcher, python, str(worker), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**inherited, **(environment or {})},
        )
        self._numbers = itertools.count(1)
        self._pending = b""
        self._unread: list[dict[str, Any]] = []

    def __enter__(self) -> WorkerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> int:
        """End the worker as a supervisor does; return its exit status."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.process.wait()
            self.process.stdout.close()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self, kind: str, run: str | None = None, timeout: float = PATIENCE) -> dict[str, Any]:
        """Return the next message of a kind (of one run); others are kept. EOFError when the worker has gone."""
        deadline = time.monotonic() + timeout
        while True:
            for number, message in enumerate(self._unread):
                if message["type"] == kind and run in (None, message.get("run")):
                    return self._unread.pop(number)
            self._read(deadline - time.monotonic())

    def next_of(self, run: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """Return the next message about a run, of whatever kind; for who reads all of one run before the next."""
        deadline = time.monotonic() + timeout
        while not any(message.get("run") == run for message in self._unread):
            self._read(deadline - time.monotonic())
        number = next(number for number, message in enumerate(self._unread) if message.get("run") == run)
        return self._unread.pop(number)

    def _read(self, timeout: float) -> None:
        assert self.process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, timeout)):
                raise TimeoutError(f"the worker said nothing more; unread: {self._unread}")
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise EOFError(f"the worker has gone; unread: {self._unread}")
        *lines, self._pending = (self._pending + data).split(b"\n")
        self._unread += [_read_answer(json.loads(line)) for line in lines]

    def start(self, plan: dict[str, Any]) -> str:
        """Ask for a run; return its name."""
        run = f"run-{next(self._numbers)}"
        self.send({"type": "run", "run": run, "plan": plan})
        return run

    def run(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Ask for a run and wait for its result."""
        return self.receive("result", self.start(plan))["result"]

    def overdue(self, plan: dict[str, Any], line: int) -> dict[str, Any]:
        """Run what does not end; where the machine was too busy to come to the line that hangs, with more time."""
        for seconds in (1.0, 10.0, 100.0):
            result = self.run({**plan, "timeout": seconds})
            if any(fault["at"] and fault["at"]["line"] == line for fault in result["faults"]):
                break
        return result


def _read_answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with the answer of a run as a ``result``, once it has passed the schema of the wire."""
    checked = wire.message(json.dumps(message))
    if message["type"] != "result":
        return checked
    said = {**wire.decoded(message["answer"]), **{k: v for k, v in message.items() if k == "output"}}
    result = wire.RESULT(said)
    failures.record(result)
    return {**checked, "result": result}


def plan(folder: Path, text: str, target: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return the plan of a run of ``program.py`` in a folder; a target takes its definitions from the whole text."""
    return {
        "path": str(folder / "program.py"),
        "text": text,
        "target": target,
        "setup": None,
        "arguments": [],
        "receiver": None,
        "module_name": "program" if target else "__main__",
        "sys_path": [str(folder)],
        "buffers": {},
        "root": str(folder),
        "device": "cpu",
        "devices": 1,
        "seed": 0,
        "timeout": 30.0,
        "loop_limit": 3,
        "instruments": None,
        "memory_limit": None,
        "gpu_memory": None,
        "backward_probe": True,
        **fields,
    }


def argument(text: str, name: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return an argument of a plan."""
    return {"name": name, "star": "", "text": text, "line": None, "column": None, "source": "comment", **fields}
