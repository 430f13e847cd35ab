"""Two editors on one folder: each has its own server and workers, and the end of one is no business of the other's."""

from __future__ import annotations

from pathlib import Path

import pytest
from dry_run_client import answering, finished, has_begun, ran, run, settings, shown
from lsp_client import JSON, Client, Start, edit
from process_tree import SOON, all_end, descendants

TEXT = """\
import torch


# dry-run: x=torch.zeros(4)
def pick(x):
    open("picked.txt", "w").write("5")
    return x[torch.tensor(int(open("picked.txt").read()))]


# dry-run: x=torch.zeros(1)
def wait(x):
    while True:
        pass
"""


@pytest.fixture
def windows(start: Start, tmp_path: Path) -> tuple[Client, Client]:
    given = settings(device="cpu", launcher=[])  # the worker is to be a child of the server
    (tmp_path / "train.py").write_text(TEXT)
    both = start(settings=answering(given)), start(settings=answering(given))
    for client in both:
        client.initialize(tmp_path, options=given)
        client.checked((tmp_path / "train.py").as_uri(), TEXT)
    return both


def faulty(items: list[JSON]) -> bool:
    return any("5 is outside [-4, 4)" in item["message"] for item in items)


def test_when_one_is_killed_the_other_goes_on(windows: tuple[Client, Client], tmp_path: Path) -> None:
    uri = (tmp_path / "train.py").as_uri()
    lost, kept = windows
    waiting = [run(client, uri, "wait") for client in windows]
    for client in windows:
        client.wait(has_begun, timeout=90)
    left = descendants(lost.process.pid)
    assert len(left) > 1
    assert not {*left} & {*descendants(kept.process.pid)}
    lost.kill()
    assert all_end(left, SOON)
    assert ran(kept, uri, "pick")["outcome"] == "failed"
    shown(kept, uri, faulty)
    assert kept.command("drygrad.cancel", {"runId": waiting[1]})
    assert finished(kept, waiting[1])["outcome"] == "cancelled"
    kept.change(uri, edit(4, 0, 4, 0, "\n"))
    kept.save(uri)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    assert kept.stop() == 0
