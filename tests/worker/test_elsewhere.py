"""Where there is no fork, no signals and no kernel layer (Windows): one process a run, files by redirection."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_client import WORKER, WorkerClient, argument, plan

ELSEWHERE = Path(__file__).parents[1] / "support" / "elsewhere.py"
TEXT = """\
import torch
def f(x):
    torch.save(x, "saved.pt")
    print("loaded", torch.load("saved.pt").tolist())
    return x[torch.tensor(5)]
"""


def started(folder: Path) -> WorkerClient:
    launcher = (sys.executable, str(ELSEWHERE), str(WORKER / "sandbox"), "--workspace", str(folder), "--")
    return WorkerClient(str(WORKER), "--no-fork", worker=ELSEWHERE, launcher=launcher)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerClient]:
    with started(tmp_path) as client:
        yield client


def test_a_run_finds_its_fault_and_leaves_nothing(worker: WorkerClient, tmp_path: Path) -> None:
    ready = worker.receive("ready")
    assert (ready["once"], ready["sim"]["works"]) == (True, False)
    assert [layer for layer, holds in ready["sandbox"].items() if holds is True] == []
    result = worker.run(plan(tmp_path, TEXT, "f", arguments=[argument("torch.zeros(2)")], timeout=120.0))
    assert (result["outcome"], [fault["code"] for fault in result["faults"]]) == ("failed", ["DG302"])
    assert "loaded [0.0, 0.0]" in result["output"]["text"]
    assert worker.process.wait(180) == 0
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_was_left_behind_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "drygrad-run-left").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with started(tmp_path) as worker:
        assert worker.receive("ready")["once"]


def test_a_deadline(worker: WorkerClient, tmp_path: Path) -> None:
    worker.receive("ready")
    text = "def f():\n    while True:\n        pass\n"
    result = worker.run(plan(tmp_path, text, "f", timeout=2.0))
    assert (result["outcome"], result["faults"][0]["code"]) == ("deadline", "DG902")


def test_a_cancel(worker: WorkerClient, tmp_path: Path) -> None:
    worker.receive("ready")
    run = worker.start(plan(tmp_path, "def f():\n    while True:\n        pass\n", "f"))
    while worker.next_of(run).get("phase") != "target":
        pass
    worker.send({"type": "cancel", "run": run})
    assert worker.receive("result", run)["result"]["outcome"] == "cancelled"
