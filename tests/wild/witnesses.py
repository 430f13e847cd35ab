"""What drygrad says of a file and of a function, asked as a user asks it: by its command line, told nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OVERDUE, REFUSED = "overdue", "refused"


@dataclass(frozen=True)
class Told:
    """One finding: ``by_run`` where a run saw it, alone or as well."""

    line: int
    code: str
    severity: str
    message: str
    by_run: bool
    path: str


@dataclass(frozen=True)
class Said:
    """What one command said of a file: its findings, how it ended, why, and in which time."""

    outcome: str
    seconds: float
    reason: str = ""
    inputs: list[str] = field(default_factory=list[str])
    findings: list[Told] = field(default_factory=list[Told])


class Witness:
    """The command that is measured, and the interpreter that has what the projects import."""

    def __init__(self, command: Sequence[str], interpreter: str, seconds: float, timeout: float | None = None) -> None:
        """``seconds`` is what each command may take, ``timeout`` what a run is told to take, if not its default."""
        self._command = command
        self._options = ["--python", interpreter, *(["--timeout", str(timeout)] if timeout else [])]
        self._seconds = seconds

    def check(self, project: Path, path: str) -> Said:
        """Return what a check of the file says."""
        return self._said(project, "check", path)

    def run(self, project: Path, path: str, function: str) -> Said:
        """Return what a dry run of the function says, and the check with it.

        Where the function is no target, as one in a function is none, what is around it is run.
        """
        target = f"{path}::{function}" if function else path
        said = self._said(project, "run", "--no-progress", *self._options, target)
        around = function.rpartition(".")[0]
        return self.run(project, path, around) if said.outcome == REFUSED and around else said

    def _said(self, project: Path, *arguments: str) -> Said:
        command = [*self._command, *arguments, "--output-format", "json"]
        began = time.monotonic()
        output, complaint = _output(command, project, self._seconds)
        seconds = round(time.monotonic() - began, 1)
        if output is None:
            return Said(OVERDUE, seconds)
        try:
            report: dict[str, Any] = json.loads(output)
        except ValueError:
            return Said(REFUSED, seconds, reason=complaint.strip()[-400:])
        runs = report["runs"]
        return Said(
            _ended(runs),
            seconds,
            " ".join(str(run.get("reason") or "") for run in runs).strip() or _why_not(report["findings"]),
            [f"{given['name']}={given['value']} ({given['source']})" for run in runs for given in run["inputs"]],
            [_told(finding) for finding in report["findings"]],
        )


def _ended(runs: list[dict[str, Any]]) -> str:
    """Return how the runs ended, those of a whole file in one word."""
    outcomes = {run["outcome"] for run in runs}
    return outcomes.pop() if len(outcomes) == 1 else "several" if outcomes else "checked"


def _output(command: Sequence[str], folder: Path, seconds: float) -> tuple[str | None, str]:
    """Return what a command writes, None where it does not end in time; nothing of it stays behind."""
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""


def _told(finding: dict[str, Any]) -> Told:
    return Told(
        finding["start"]["line"],
        finding["code"],
        finding["severity"],
        finding["message"],
        finding["run"] is not None or finding["witness"] != "static",
        finding["path"],
    )


def _why_not(findings: list[dict[str, Any]]) -> str:
    """Return what drygrad says of inputs that it has not found."""
    return next((finding["message"] for finding in findings if finding["code"] == "DG901"), "")
