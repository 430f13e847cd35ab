"""A fault that a run comes to in another file of the project is shown in that file, whether it is open or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from dry_run_client import answering, published, ran, settings, shown
from lsp_client import JSON, Client, Start, apply_edits, edit

TRAIN = """\
import torch
from parts.losses import criterion


def step(scores, target):
    return criterion(scores, target)


if __name__ == "__main__":
    step(torch.randn(4, 5), torch.tensor([0, 1, 5, 2]))
"""
LOSSES = """\
import torch.nn.functional as F


def criterion(scores, target):
    é = "é"; return F.cross_entropy(scores, target)
"""
FAULT = "5 is outside [0, 5)"


def faulty(items: list[JSON]) -> bool:
    return [FAULT in item["message"] for item in items] == [True]


def nothing(items: list[JSON]) -> bool:
    return not items


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    path = tmp_path / "parts" / "losses.py"
    path.parent.mkdir()
    path.write_text(LOSSES, encoding="utf-8")
    return path


@pytest.fixture
def train(tmp_path: Path) -> str:
    return (tmp_path / "train.py").as_uri()


@pytest.fixture
def client(start: Start, tmp_path: Path, losses: Path, train: str) -> Client:
    """Return an editor in which only the file that was run is open."""
    (tmp_path / "pyproject.toml").touch()
    given = settings(device="cpu")
    client = start(settings=answering(given))
    client.initialize(tmp_path, options=given)
    client.checked(train, TRAIN)
    assert FAULT in ran(client, train, "step")["text"]
    return client


def test_it_is_published_of_a_file_that_is_not_open(client: Client, losses: Path, train: str) -> None:
    (item,) = shown(client, losses.as_uri(), faulty)
    assert item["range"] == {"start": {"line": 4, "character": 20}, "end": {"line": 4, "character": 51}}
    related = [(each["location"]["uri"], each["location"]["range"]["start"]) for each in item["relatedInformation"]]
    assert related == [(train, {"line": 9, "character": 28})]
    assert published(client, train) == []


def test_an_edit_of_what_was_run_takes_it_back(client: Client, losses: Path, train: str) -> None:
    shown(client, losses.as_uri(), faulty)
    client.change(train, edit(5, 11, 5, 11, "2 * "))
    shown(client, losses.as_uri(), nothing)


def test_a_change_of_the_file_on_the_disk_takes_it_back(client: Client, losses: Path) -> None:
    shown(client, losses.as_uri(), faulty)
    losses.write_text(LOSSES.replace("target)", "target.clamp(max=4))"), encoding="utf-8")
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": losses.as_uri(), "type": 2}]})
    shown(client, losses.as_uri(), nothing)


def test_it_is_shown_in_the_open_file_until_that_is_edited(client: Client, losses: Path) -> None:
    shown(client, losses.as_uri(), faulty)
    client.open(losses.as_uri(), LOSSES)
    client.published(losses.as_uri(), 1)
    (item,) = shown(client, losses.as_uri(), faulty)
    assert item["range"]["start"] == {"line": 4, "character": 20}
    client.change(losses.as_uri(), edit(0, 0, 0, 0, "\n"))
    shown(client, losses.as_uri(), nothing)


def test_a_comment_in_the_other_file_silences_it(client: Client, losses: Path, train: str) -> None:
    shown(client, losses.as_uri(), faulty)
    losses.write_text(LOSSES.rstrip("\n") + "  # drygrad: ignore[DG302]\n", encoding="utf-8")
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": losses.as_uri(), "type": 2}]})
    shown(client, losses.as_uri(), nothing)
    ran(client, train, "step")
    assert published(client, losses.as_uri()) == []


def test_closing_the_file_leaves_it_shown_and_closing_what_was_run_does_not(
    client: Client, losses: Path, train: str
) -> None:
    shown(client, losses.as_uri(), faulty)
    client.open(losses.as_uri(), LOSSES)
    client.close(losses.as_uri())
    shown(client, losses.as_uri(), faulty)
    client.close(train)
    shown(client, losses.as_uri(), nothing)


LAYERS = "def scaled(x):\n    hidden = x.exp()\n    hidden.add_(1)\n    return hidden.sum()\n"
USES = "import torch\nfrom layers import scaled\n\nscaled(torch.ones(3, requires_grad=True)).backward()\n"


def test_a_fix_that_was_tried_is_offered_in_the_open_file(start: Start, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    layers, uses = tmp_path / "layers.py", (tmp_path / "uses.py").as_uri()
    layers.write_text(LAYERS)
    given = settings(device="cpu")
    client = start(settings=answering(given))
    client.initialize(tmp_path, options=given)
    client.checked(uses, USES)
    client.checked(layers.as_uri(), LAYERS)
    ran(client, uses)

    def verified(items: list[JSON]) -> bool:
        return [fix["verified"] for item in items for fix in item["data"]["fixes"]][:1] == [True]

    (item,) = shown(client, layers.as_uri(), verified)
    (change,) = client.actions(layers.as_uri(), [item])[0]["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": layers.as_uri(), "version": 1}
    assert apply_edits(LAYERS, change["edits"]) == LAYERS.replace("hidden.add_(1)", "hidden = hidden.add(1)")
