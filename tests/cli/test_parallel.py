"""Many files on many cores: the order, the bar, and processes that die."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from drygrad.cli import parallel
from drygrad.cli.inspection import Job
from drygrad.cli.report import FileResult
from drygrad.settings import Settings


def jobs(folder: Path, count: int) -> list[Job]:
    made: list[Job] = []
    for number in range(count):
        path = folder / f"f{number:02}.py"
        path.write_text("x = 1\n")
        made.append(Job(path, path.name, Settings()))
    return made


def die_at_ten(job: Job) -> FileResult:
    if job.shown == "f10.py":
        os._exit(9)
    return FileResult(job.shown)


def test_small_checks_start_no_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(parallel, "_in_processes")
    assert len(list(parallel.inspect_all(jobs(tmp_path, 20), None, show_progress=False))) == 20


def test_large_checks_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def instead(given: list[Job], count: int) -> list[FileResult]:
        asked.append(count)
        return [FileResult(job.shown) for job in given]

    made = jobs(tmp_path, 4)
    made[0].path.write_text("#" * (parallel.BYTES_THAT_PAY + 1))
    monkeypatch.setattr(parallel, "_in_processes", instead)
    monkeypatch.setattr(parallel, "available_cores", lambda: 3)
    assert len(list(parallel.inspect_all(made, None, show_progress=False))) == 4
    assert asked == [3]


@pytest.mark.skipif(sys.platform != "linux", reason="the replaced function reaches the workers by fork only")
def test_a_process_that_dies_is_said_and_ends_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "inspect", die_at_ten)
    results = list(parallel.inspect_all(jobs(tmp_path, 20), 2, show_progress=False))
    assert [result.path for result in results] == [f"f{number:02}.py" for number in range(20)]
    assert results[10].failed
    assert "not checked: a process died" in results[10].problems[0]


def test_the_bar_shows_on_a_terminal_after_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    made = jobs(tmp_path, 3)
    list(parallel.inspect_all(made, 1, show_progress=True))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(parallel, "SECONDS_BEFORE_PROGRESS", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    list(parallel.inspect_all(made, 1, show_progress=True))
    assert "Checking" in capsys.readouterr().err
