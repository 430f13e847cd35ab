"""The callbacks' dry run: which command it is of, what becomes of its report, and that it does nothing within one."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_client import WorkerClient, plan

from drygrad.callbacks import rehearsal
from drygrad.callbacks.rehearsal import DryRunFailed, Rehearsal, command_of_this_process


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("")
    return path


@pytest.mark.parametrize(
    ("started", "command"),
    [
        ("/bin/python train.py --lr 1", "python train.py --lr 1"),
        ("python -u -W ignore -X dev train.py", "python train.py"),
        ("python3.11 -m pkg.train --lr 1", "python -m pkg.train --lr 1"),
        ("python -c pass", None),
        ("python", None),
        ("python gone.py", None),
    ],
)
def test_the_command_is_the_one_that_started_this_process(
    script: Path, monkeypatch: pytest.MonkeyPatch, started: str, command: str | None
) -> None:
    assert script.exists()
    monkeypatch.setattr(sys, "orig_argv", started.split())
    monkeypatch.setattr(sys, "argv", [""])
    assert command_of_this_process() == (command.split() if command else None)


Held = Callable[[int], list[Any]]


@pytest.fixture
def held(script: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    """Hold a rehearsal whose dry run ends with some status; return what it was called with."""
    monkeypatch.setattr(sys, "orig_argv", ["python", script.name])
    monkeypatch.delenv("DRYGRAD_REHEARSED", raising=False)

    def hold(status: int) -> list[Any]:
        calls: list[Any] = []

        def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
            calls.append((words, options["env"]))
            return subprocess.CompletedProcess(words, status, "the report\n")

        monkeypatch.setattr(rehearsal.subprocess, "run", run)
        Rehearsal("warning", timeout=9.0).hold()
        return calls

    return hold


def test_what_was_found_ends_the_job(held: Held) -> None:
    with pytest.raises(DryRunFailed, match="the report"):
        held(1)


def test_what_passed_is_told_and_held_once(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    ((words, _),) = held(0)
    assert words[-3:] == ["--", "python", "train.py"]
    assert {"--fail-on=warning"} <= {"=".join(pair) for pair in itertools.pairwise(words)}
    assert capsys.readouterr().err == "the report\n"
    assert held(0) == []


def test_what_could_not_be_done_ends_no_job(held: Held) -> None:
    with pytest.warns(UserWarning, match="could not dry-run this job"):
        held(2)


def test_a_launch_of_several_ranks_is_compared_as_one(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "4", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "x"}.items():
        monkeypatch.setenv(name, value)
    ((words, variables),) = held(0)
    assert words[words.index("--ranks") + 1] == "4"
    assert not {"RANK", "WORLD_SIZE", "MASTER_PORT", "TORCHELASTIC_RUN_ID"} & set(variables)


PROGRAM = """\
from drygrad.callbacks.rehearsal import Rehearsal

Rehearsal().hold()
try:
    import drygrad.settings
except ImportError:
    print("nothing else of drygrad's is there")
"""


def test_within_a_dry_run_it_does_nothing(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, PROGRAM))
    assert result["outcome"] == "passed", result
    assert result["output"]["text"] == "nothing else of drygrad's is there\n"
