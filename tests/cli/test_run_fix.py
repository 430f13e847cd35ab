"""``drygrad run``: fixes that were tried, folders, and watching."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Outcome, environment, program, run_here

from drygrad.cli.formats.runs import table
from drygrad.cli.report import FileResult, Report
from drygrad.dryrun.capacity import parallel_runs

FAULTY = """\
import torch
import torch.nn.functional as F


# dry-run: x=torch.rand(4, 3, requires_grad=True)
def limited(x):
    rate = x.exp()
    rate.clamp_(max=2.0)
    return rate.log()


# dry-run: scores=torch.randn(4, 3), y=torch.zeros(4)
def loss(scores, y):
    return F.cross_entropy(scores, y)
"""
SAFE = FAULTY.replace("rate.clamp_(max=2.0)", "rate = rate.clamp(max=2.0)")
BOTH = SAFE.replace("(scores, y)\n", "(scores, y.long())\n").replace(
    "def loss(scores, y.long())", "def loss(scores, y)"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "faulty.py").write_text(FAULTY)
    return tmp_path


def call(folder: Path, *arguments: str) -> Outcome:
    return run_here(
        "run", *arguments, "--experiment-time", "0", "--device", "cpu", "--python", sys.executable, cwd=folder
    )


def test_a_fix_says_what_came_of_trying_it(folder: Path) -> None:
    outcome = call(folder, "faulty.py")
    assert outcome.status == 1
    assert "fix (verified, safe, --fix): Replace `clamp_` with `clamp`" in outcome.out
    assert "fix (verified, unsafe, --unsafe-fixes): Convert `y` with `.long()`" in outcome.out
    assert "1 fixable with --fix; 1 more with --unsafe-fixes" in outcome.out
    answer: dict[str, Any] = json.loads(call(folder, "faulty.py", "--output-format", "json").out)
    assert {fix["verified"] for finding in answer["findings"] for fix in finding["fixes"]} == {True}


def test_fix_applies_what_is_verified_and_safe(folder: Path) -> None:
    outcome = call(folder, "faulty.py", "--fix")
    assert (folder / "faulty.py").read_text() == SAFE
    assert outcome.status == 1
    assert "Applied 1 fix. Found 1 error" in outcome.out
    assert call(folder, "faulty.py::limited", "--fix").status == 0


def test_unsafe_fixes_applies_what_is_verified(folder: Path) -> None:
    outcome = call(folder, "faulty.py", "--unsafe-fixes")
    assert (folder / "faulty.py").read_text() == BOTH
    assert (outcome.status, "Applied 2 fixes. Found nothing" in outcome.out) == (0, True)


def test_diff_writes_nothing(folder: Path) -> None:
    outcome = call(folder, "faulty.py", "--diff", "--unsafe-fixes")
    assert "+    rate = rate.clamp(max=2.0)" in outcome.out
    assert "+    return F.cross_entropy(scores, y.long())" in outcome.out
    assert (folder / "faulty.py").read_text() == FAULTY
    assert (outcome.status, "Would apply 2 fixes; nothing is written." in outcome.err) == (1, True)


def test_a_fix_that_did_not_hold_is_not_applied(folder: Path) -> None:
    text = FAULTY[: FAULTY.index("# dry-run: scores")].replace("rate.log()", "rate.log() / 0 + {}['a']")
    (folder / "faulty.py").write_text(text)
    outcome = call(folder, "faulty.py", "--unsafe-fixes")
    assert (folder / "faulty.py").read_text() == text
    assert outcome.status == 1


def test_a_folder_ends_with_a_table(folder: Path) -> None:
    (folder / "fine.py").write_text("def double(a=1):\n    return 2 * a\n")
    outcome = call(folder, ".")
    lines = outcome.out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("file "))
    rows = [line.split() for line in lines[start : start + 3]]
    assert rows[1:] == [["faulty.py", "2", "0", "2", "0"], ["fine.py", "1", "1", "0", "0"]]
    assert "fine.py::double: passed" not in outcome.out


def test_the_table_of_files_without_targets() -> None:
    assert table(Report((FileResult("a.py"),))).splitlines()[1].split() == ["a.py", "0", "0", "0", "0"]


@pytest.mark.parametrize(
    "options", [["--diff", "--output-format", "json"], ["--watch", "--output-format", "json"], ["--watch", "--fix"]]
)
def test_options_that_do_not_go_together(folder: Path, options: list[str]) -> None:
    outcome = call(folder, "faulty.py", *options)
    assert (outcome.status, outcome.out) == (2, "")
    assert "; remove --" in outcome.err


def test_watching_runs_again_what_was_saved(folder: Path) -> None:
    path, log = folder / "faulty.py", folder / "log"
    command = program("run", "faulty.py", "--watch", "--device", "cpu", "--python", sys.executable)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            first = _told(process, log, 1)
            path.write_text(SAFE)
            second = _told(process, log, 2)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(180) == 0
    assert "Found 2 errors" in first
    assert "Found 1 error " in second
    assert "faulty.py::limited: passed" in second


def _told(process: subprocess.Popen[bytes], log: Path, count: int) -> str:
    """Wait until the command watches for the given time; return what it has said for that."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        said = log.read_text().split("watching; Ctrl-C ends\n")
        if len(said) > count:
            return said[count - 1]
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def test_runs_side_by_side_are_bounded_by_memory_and_cores() -> None:
    assert parallel_runs(free=64 << 30, cores=4) == 4
    assert parallel_runs(free=2 << 30, cores=16) == 2
    assert parallel_runs(free=100 << 20, cores=16) == 1
    assert parallel_runs(free=None, cores=3) in (1, 2, 3)
    assert parallel_runs() <= (os.cpu_count() or 1)
