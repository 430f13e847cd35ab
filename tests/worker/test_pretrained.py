"""Weights that a program downloads: the model keeps those that it was made with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from drygrad.worker import pretrained
from drygrad.worker.surroundings import lacking

URL = "https://example.invalid/weights-0.pth"


class Notes:
    """Keeps what a run is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notes]:
    for owner, name in ((torch.hub, "download_url_to_file"), (torch, "load"), (torch.nn.Module, "load_state_dict")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    made = Notes()
    run: Any = made
    pretrained.install(run)
    yield made


def test_a_download_leaves_the_weights_as_they_are(notes: Notes, tmp_path: Path) -> None:
    net = torch.nn.Linear(2, 3)
    before = net.weight.clone()
    state = torch.hub.load_state_dict_from_url(URL, model_dir=str(tmp_path))
    net.load_state_dict({key.replace("module.", ""): value for key, value in state["model"].items()})
    assert torch.equal(net.weight, before)
    assert notes.told == [f"weights that the program would download are random: {URL}"]


def test_what_is_on_the_disk_is_loaded(notes: Notes, tmp_path: Path) -> None:
    net, other = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    torch.save(other.state_dict(), tmp_path / "weights-0.pth")
    net.load_state_dict(torch.hub.load_state_dict_from_url(URL, model_dir=str(tmp_path)))
    assert torch.equal(net.weight, other.weight)
    assert not notes.told


def test_an_empty_state_is_an_error_where_nothing_was_left_out(notes: Notes) -> None:
    with pytest.raises(RuntimeError, match="Missing key"):
        torch.nn.Linear(2, 3).load_state_dict({})


def test_what_is_there_is_loaded_beside_what_was_to_be_downloaded(notes: Notes, tmp_path: Path) -> None:
    net = torch.nn.Linear(2, 3)
    state = torch.hub.load_state_dict_from_url(URL, model_dir=str(tmp_path))
    net.load_state_dict({"weight": state["weight"], "bias": torch.ones(3)})
    assert torch.equal(net.bias, torch.ones(3))


def test_weights_that_are_used_as_values_are_no_fault_of_the_program(notes: Notes, tmp_path: Path) -> None:
    state = torch.hub.load_state_dict_from_url(URL, model_dir=str(tmp_path))
    with pytest.raises(AttributeError) as raised:
        torch.split(state["alpha"], [1], dim=1)
    assert "does not download weights" in (lacking(raised.value) or "")
    with pytest.raises(AttributeError) as raised_too:
        torch.nn.Parameter(state["alpha"])
    assert lacking(raised_too.value) is not None
    assert lacking(AttributeError("'OrderedDict' object has no attribute 'split'")) is None
