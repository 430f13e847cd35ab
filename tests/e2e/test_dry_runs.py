"""Dry runs in the editor with the real worker: from a buggy file to a file that passes, and every way to end a run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dry_run_client import answering, finished, has_begun, last_run, run, settings, shown
from lsp_client import JSON, Client, Start, edit, params_of, progress_ends
from process_tree import SOON, all_end, descendants

from drygrad.static.registry import relations

LOSS = """\
import torch
import torch.nn.functional as F


# dry-run: logits=torch.randn(4, 5, device="cuda"), target=torch.tensor([0, 1, 5, 2], device="cuda")
def loss(logits, target):
    scaled = logits * 2
    return F.cross_entropy(scaled, target)
"""
WRONG_LINE = LOSS.splitlines().index("    return F.cross_entropy(scaled, target)")
ENDLESS = """\
import torch


# dry-run: x=torch.zeros(1)
def wait(x):
    while True:
        pass
"""


@pytest.fixture
def trusted(start: Start, tmp_path: Path) -> Client:
    client = start(settings=answering(settings()))
    client.initialize(tmp_path, options=settings())
    return client


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return (tmp_path / "train.py").as_uri()


def at(line: int) -> Callable[[list[JSON]], bool]:
    """Return what says whether the fault is shown at a line."""

    def holds(items: list[JSON]) -> bool:
        return ["5 is outside [0, 5)" in i["message"] and i["range"]["start"]["line"] == line for i in items] == [True]

    return holds


def nothing(items: list[JSON]) -> bool:
    return not items


NOISY = """\
import torch
import torch.nn.functional as F
from torch import nn


class Noisy(nn.Module):
    # dry-run: self=Noisy(), x=torch.ones(4, 5)
    def forward(self, x):
        return F.dropout(x, 0.5)
"""


def test_what_experiments_find_is_shown_as_each_ends_with_progress(trusted: Client, uri: str) -> None:
    trusted.checked(uri, NOISY)
    run_id = run(trusted, uri, "Noisy.forward")
    assert finished(trusted, run_id)["outcome"] == "passed"
    shown(trusted, uri, lambda items: [(i["code"], i["range"]["start"]["line"]) for i in items] == [("DG743", 8)])
    trusted.wait(lambda message: progress_ends(message) and params_of(message)["token"] in experiments(trusted))
    shown_as = experiments(trusted)
    (report,) = trusted.request("drygrad/run", {"runId": run_id})["runs"]
    assert len(report["experiments"]) == len(relations())
    told = [message for _, message in trusted.received]
    ended = next(number for number, message in enumerate(told) if last_run(message).get("runId") == run_id)
    begun = next(number for number, message in enumerate(told) if params_of(message).get("token") in shown_as)
    assert ended < begun
    values = [params["value"] for params in trusted.sent("$/progress")]
    assert any(f", 2 of {len(relations())}" in (value.get("message") or "") for value in values)


def experiments(client: Client) -> list[str]:
    """Return the progress of experiments."""
    told = client.sent("$/progress")
    return [params["token"] for params in told if params["value"].get("title", "").startswith("Experiments: ")]


def test_from_a_buggy_file_to_one_that_passes(trusted: Client, uri: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOSS)
    trusted.checked(uri, LOSS)
    assert finished(trusted, run(trusted, uri, "loss"))["outcome"] == "failed"
    (fault,) = shown(trusted, uri, at(WRONG_LINE))
    assert (fault["source"], fault["severity"]) == ("drygrad", 1)
    labels = {hint["position"]["line"]: hint["label"] for hint in trusted.hints(uri)}
    assert labels[WRONG_LINE - 1] == ": float32 [4, 5] cuda"
    assert "values from" in trusted.hover(uri, WRONG_LINE - 1, 5)["contents"]["value"]

    trusted.change(uri, edit(0, 0, 0, 0, "# elsewhere\n"))
    shown(trusted, uri, at(WRONG_LINE + 1))
    trusted.change(uri, edit(WRONG_LINE + 1, 4, WRONG_LINE + 1, 4, "pass; "))
    shown(trusted, uri, nothing)
    trusted.change(uri, edit(WRONG_LINE + 1, 4, WRONG_LINE + 1, 10, ""))
    shown(trusted, uri, at(WRONG_LINE + 1))

    line = 5
    trusted.change(uri, edit(line, 0, line, 200, LOSS.splitlines()[4].replace("5, 2", "4, 2")))
    trusted.save(uri)
    assert finished(trusted, "run-2")["text"].startswith("✓ passed on sim")
    assert shown(trusted, uri, nothing) == []
    report = trusted.request("drygrad/run", {"runId": "run-2"})
    assert [(one["outcome"], one["device"]) for one in report["runs"]] == [("passed", "sim")]
    assert trusted.stop() == 0


def test_an_endless_loop_is_cancelled_and_the_next_run_works(trusted: Client, uri: str) -> None:
    trusted.checked(uri, ENDLESS + LOSS)
    finished(trusted, run(trusted, uri, "loss"))
    run_id = run(trusted, uri, "wait")
    begin = trusted.wait(lambda message: "Dry run: wait" in str(params_of(message)))["params"]
    trusted.wait(has_begun)
    trusted.notify("window/workDoneProgress/cancel", {"token": begin["token"]})
    assert finished(trusted, run_id)["outcome"] == "cancelled"
    trusted.wait(lambda message: progress_ends(message) and params_of(message)["token"] == begin["token"])
    assert finished(trusted, run(trusted, uri, "loss"))["outcome"] == "failed"


def test_the_workers_are_restarted(trusted: Client, uri: str) -> None:
    trusted.checked(uri, LOSS)
    finished(trusted, run(trusted, uri, "loss"))
    before = descendants(trusted.process.pid)
    trusted.command("drygrad.restartWorkers")
    assert finished(trusted, run(trusted, uri, "loss"))["outcome"] == "failed"
    assert all_end(workers(before), SOON)


def test_a_killed_worker_is_a_result_and_the_next_run_works(trusted: Client, uri: str) -> None:
    trusted.checked(uri, ENDLESS + LOSS)
    finished(trusted, run(trusted, uri, "loss"))
    run_id = run(trusted, uri, "wait")
    trusted.wait(has_begun)
    for pid in workers(descendants(trusted.process.pid)):
        kill(pid)
    assert finished(trusted, run_id)["outcome"] == "crashed"
    assert finished(trusted, run(trusted, uri, "loss"))["outcome"] == "failed"


@pytest.mark.parametrize("end", ["kill", "close", "exit"])
def test_no_process_outlives_the_server(trusted: Client, uri: str, end: str) -> None:
    trusted.checked(uri, ENDLESS)
    run(trusted, uri, "wait")
    trusted.wait(has_begun, timeout=90)
    left = descendants(trusted.process.pid)
    assert workers(left)
    if end == "kill":
        trusted.process.kill()
    elif end == "close":
        assert trusted.process.stdin
        trusted.process.stdin.close()
    else:
        assert trusted.stop(10) == 0
    trusted.process.wait(180)
    assert all_end(left, SOON)


def test_an_interpreter_without_torch(start: Start, tmp_path: Path, uri: str) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    given = settings(interpreter=str(python))
    client = start(settings=answering(given))
    client.initialize(tmp_path, options=given)
    client.checked(uri, LOSS)
    finished(client, run(client, uri, "loss"))
    client.wait(lambda message: message.get("method") == "window/showMessage")
    (message,) = client.sent("window/showMessage")
    assert "torch" in message["message"]
    assert client.sent("drygrad/status")[-1]["worker"]["state"] == "failed"


def test_nothing_is_started_where_the_workspace_is_not_trusted(start: Start, tmp_path: Path, uri: str) -> None:
    given = settings(trusted=False)
    client = start(settings=answering(given))
    client.initialize(tmp_path, options=given)
    client.checked(uri, LOSS)
    assert client.command("drygrad.dryRun", {"uri": uri, "qualname": "loss"})["runId"] is None
    assert workers(descendants(client.process.pid)) == []


def workers(pids: list[int]) -> list[int]:
    """Return those of the processes that run the worker's program."""
    return [pid for pid in pids if "worker" in command_of(pid)]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
