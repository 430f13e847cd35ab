"""An editor whose runs happen on another machine: findings are placed here, and what waits there can be cancelled."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dry_run_client import answering, finished, ran, run, shown
from far_host import FarHost
from far_runs import PROMPT
from lsp_client import JSON, Client, params_of
from process_tree import all_end, descendants

TEXT = """\
import torch
from layers import width


# dry-run: x=torch.zeros(4)
def pick(x):
    return x[torch.tensor(width)]
"""


@pytest.fixture
def folder(near: Path) -> Path:
    """Return a project that the host does not see."""
    folder = near / "editor"
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(TEXT)
    (folder / "layers.py").write_text("width = 5\n")
    return folder


@contextmanager
def editor(host: FarHost, folder: Path, launcher: str) -> Generator[Client]:
    """Start one with a way that leads to the host, and one that leads to a wait."""
    ways = {
        "box": {"command": list(host.command), "python": host.python},
        "queue": [*host.command, "echo it queues >&2; sleep 1000; {quoted}"],
    }
    given: JSON = {"debounce": 0, "trusted": True, "device": "cpu", "launchers": ways, "launcher": [launcher]}
    given["interpreter"] = sys.executable
    client = Client([sys.executable, "-m", "drygrad", "server"], settings=answering(given))
    try:
        client.initialize(folder, options=given)
        client.checked((folder / "train.py").as_uri(), TEXT)
        yield client
    finally:
        client.kill()


def test_findings_of_a_far_run_are_here_and_saved_files_go_there(host: FarHost, folder: Path) -> None:
    uri = (folder / "train.py").as_uri()
    with editor(host, folder, "box") as client:
        last = ran(client, uri, "pick")
        assert last["outcome"] == "failed", str(last)
        found = shown(client, uri, lambda items: any("5 is outside [-4, 4)" in item["message"] for item in items))
        assert {item["range"]["start"]["line"] for item in found} == {6}
        (folder / "layers.py").write_text("width = 3\n")
        assert ran(client, uri, "pick")["outcome"] == "passed"


def test_a_wait_shows_and_is_cancelled(host: FarHost, folder: Path) -> None:
    with editor(host, folder, "queue") as client:
        waiting = run(client, (folder / "train.py").as_uri(), "pick")
        client.wait(lambda message: "waiting for ssh: it queues" in str(params_of(message)), timeout=PROMPT)
        (ssh,) = [process for process in descendants(client.process.pid) if "it queues" in _command(process)]
        assert client.command("drygrad.cancel", {"runId": waiting})
        assert finished(client, waiting)["outcome"] == "cancelled"
        assert all_end([ssh], PROMPT)


def _command(process: int) -> str:
    return Path("/proc", str(process), "cmdline").read_text()
