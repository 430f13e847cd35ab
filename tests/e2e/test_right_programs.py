"""Programs that are right, though they tread near what rules and instruments look for: nothing is said against them.

Each is checked and run on the simulated GPU: every function that has inputs, then the script.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_harness import environment, program

pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[1] / "data" / "right"
PROGRAMS = sorted(FOLDER.glob("*.py"))


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    """What one call says of all programs: they share a worker."""
    options = ("--device", "sim", "--timeout", "20", "--python", sys.executable, "--output-format", "json")
    command = program("run", str(FOLDER), *options)
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_nothing_is_said_against_a_right_program(path: Path, answer: dict[str, Any]) -> None:
    findings = [finding for finding in answer["findings"] if finding["path"] == str(path)]
    assert [f for f in findings if f["severity"] in ("warning", "error")] == []
    runs = {run["target"]: run["outcome"] for run in answer["runs"] if run["target"].partition("::")[0] == str(path)}
    # A method called alone may fail for want of what the program does before; that is a hint.
    assert set(runs.values()) <= {"passed", "failed", "no-inputs"}, runs
    assert runs[str(path)] == "passed"
