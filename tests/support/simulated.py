"""A process with a simulated GPU that runs pieces of code, each in a fork, and tells what became of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker_client import PYTHON

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import io, json, os, sys, traceback, warnings
import torch
from drygrad.worker.devices import sim

def run(code):
    warnings.simplefilter("ignore")
    syncs = []
    sim.on_sync = lambda kind, op: syncs.append([kind, op])
    names = {"torch": torch, "sim": sim, "syncs": syncs, "F": torch.nn.functional, "nn": torch.nn}
    try:
        exec(compile(code, "<snippet>", "exec"), names)
    except BaseException as error:
        said = {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}
    else:
        said = {"result": names.get("result")}
    return json.dumps(said, default=str)

options = json.loads(sys.argv[1])
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
if options.pop("enable", True):
    sim.enable(**options)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        answers.write("[" + ",".join(map(run, json.loads(line))) + "]" + chr(10))
        answers.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        died = {"error": "Died", "message": str(status), "trace": ""}
        answers.write(json.dumps([died] * len(json.loads(line))) + chr(10))
        answers.flush()
"""


class Failed(AssertionError):
    """A piece of code failed that was to succeed."""


@dataclass
class Outcome:
    """What became of a piece of code: its variable ``result``, or the error that it raised."""

    result: Any = None
    error: str | None = None
    message: str = ""
    trace: str = ""


class Simulated:
    """The process; options are those of ``enable``, or ``enable=False`` for a plain CPU."""

    def __init__(self, **options: object) -> None:
        path = os.pathsep.join([str(ROOT / "analyzers"), str(ROOT / "tests" / "support"), str(ROOT)])
        self._process = subprocess.Popen(
            [PYTHON, "-W", "ignore", "-c", PROGRAM, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )

    def outcome(self, code: str) -> Outcome:
        """Run code in a fork of its own."""
        (outcome,) = self.outcomes([code])
        return outcome

    def outcomes(self, codes: Sequence[str]) -> list[Outcome]:
        """Run pieces of code one after the other in one fork, each with names of its own."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([*codes]) + "\n")
        self._process.stdin.flush()
        return [Outcome(**answer) for answer in json.loads(self._process.stdout.readline())]

    def run(self, code: str) -> Any:
        """Run code that must succeed; return its variable ``result``."""
        outcome = self.outcome(code)
        if outcome.error is not None:
            raise Failed(outcome.trace or f"{outcome.error}: {outcome.message}")
        return outcome.result

    def refusal(self, code: str) -> str:
        """Run code that must fail; return the error as ``Type: message``."""
        outcome = self.outcome(code)
        if outcome.error is None:
            raise Failed(f"nothing was raised; the result is {outcome.result!r}")
        return f"{outcome.error}: {outcome.message}"

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(180)
        self._process.stdout.close()
