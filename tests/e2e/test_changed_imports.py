"""What a run found holds as long as the files that it imported: changed in the editor, saved, changed on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from dry_run_client import answering, finished, has_begun, ran, run, settings, shown
from lsp_client import JSON, Client, Start, edit

TRAIN = """\
import torch
from layers import CLASSES


# dry-run: x=torch.zeros(4)
def pick(x):
    return x[torch.tensor(CLASSES)]
"""
WRONG, RIGHT = "CLASSES = 5\n", "CLASSES = 3\n"
FAULT = "5 is outside [-4, 4)"


def faulty(items: list[JSON]) -> bool:
    return any(FAULT in item["message"] for item in items)


def nothing(items: list[JSON]) -> bool:
    return not items


@pytest.fixture
def client(start: Start, tmp_path: Path) -> Client:
    """Return an editor in whose file a run has found a fault that an imported file causes."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "layers.py").write_text(WRONG)
    given = settings(device="cpu")
    client = start(settings=answering(given))
    client.initialize(tmp_path, options=given)
    client.checked((tmp_path / "train.py").as_uri(), TRAIN)
    return client


@pytest.fixture
def train(tmp_path: Path) -> str:
    return (tmp_path / "train.py").as_uri()


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    return tmp_path / "layers.py"


def changed(client: Client, *paths: Path, kind: int = 2) -> None:
    """Tell of files that have changed on the disk."""
    events = [{"uri": path.as_uri(), "type": kind} for path in paths]
    client.notify("workspace/didChangeWatchedFiles", {"changes": events})


def test_a_file_that_changes_on_the_disk(client: Client, train: str, layers: Path) -> None:
    watchers = client.registered["workspace/didChangeWatchedFiles"]["watchers"]
    assert {"globPattern": "**/*.py"} in watchers
    ran(client, train, "pick")
    shown(client, train, faulty)
    layers.write_text(RIGHT)
    changed(client, layers.with_name("other.py"), layers)
    assert finished(client, "run-2")["outcome"] == "passed"
    assert shown(client, train, nothing) == []
    layers.write_text(WRONG)
    changed(client, layers)
    assert finished(client, "run-3")["outcome"] == "failed"
    shown(client, train, faulty)


def test_what_is_not_pinned_is_outdated_and_not_run(client: Client, train: str, layers: Path) -> None:
    ran(client, train, "pick")
    shown(client, train, faulty)
    client.command("drygrad.unpin", {"uri": train, "qualname": "pick"})
    changed(client, layers)
    assert shown(client, train, nothing) == []
    assert run(client, train, "pick") == "run-2"


def test_a_file_that_was_missing_comes(client: Client, train: str, layers: Path) -> None:
    layers.unlink()
    assert ran(client, train, "pick")["outcome"] == "missing-package"
    layers.write_text(RIGHT)
    changed(client, layers, kind=1)
    assert finished(client, "run-2")["outcome"] == "passed"


def test_a_text_in_the_editor_counts_before_the_disk(client: Client, train: str, layers: Path) -> None:
    client.checked(layers.as_uri(), WRONG)
    ran(client, train, "pick")
    shown(client, train, faulty)
    layers.write_text(RIGHT)
    changed(client, layers)
    assert run(client, train, "pick") == "run-2", "nothing ran by itself"
    finished(client, "run-2")
    client.change(layers.as_uri(), {"text": RIGHT})
    assert shown(client, train, nothing) == []
    client.save(layers.as_uri())
    assert finished(client, "run-3")["outcome"] == "passed"


def test_a_text_that_is_closed_unsaved_no_longer_counts(client: Client, train: str, layers: Path) -> None:
    client.checked(layers.as_uri(), RIGHT)
    assert ran(client, train, "pick")["outcome"] == "passed"
    assert any("✓" in lens["command"]["title"] for lens in client.lenses(train))
    client.close(layers.as_uri())
    assert not any("✓" in lens["command"]["title"] for lens in client.lenses(train))


@pytest.mark.slow
def test_a_file_that_changes_during_the_run(client: Client, train: str, layers: Path) -> None:
    client.change(train, edit(1, 0, 1, 0, "import time\n"), edit(7, 4, 7, 4, "time.sleep(6)\n    "))
    run(client, train, "pick")
    client.wait(has_begun, timeout=300)
    layers.write_text(RIGHT)
    changed(client, layers)
    assert finished(client, "run-1")["outcome"] == "failed"
    assert finished(client, "run-2")["outcome"] == "passed"
    assert not any(faulty(p["diagnostics"]) for p in client.sent("textDocument/publishDiagnostics"))
