"""What was found in a file is known again, as long as all that it rests on is as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_harness import Cli

from drygrad import file_check, result_cache
from drygrad.static.engine import Analysis, Analyzer
from drygrad.static.source import Source

FAULTY = """\
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def forward(self, x, y):
        return F.cross_entropy(F.softmax(x, dim=1), y)
"""
TRAIN = """\
import torch
from nets import Net


class Wide(Net):
    def __init__(self):
        super().__init__()
        self.layers = [torch.nn.Linear(3, 3)]

    def forward(self, x):
        return self.layers[0](x)
"""
NETS = "import torch.nn as nn\n\n\nclass Net(nn.Module):\n    pass\n"


@pytest.fixture
def checked(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the texts that are analysed, and not known from before."""
    monkeypatch.setenv(result_cache.VARIABLE, str(tmp_path / "kept"))
    texts: list[str] = []

    class Counting(Analyzer):
        def check(self, source: Source) -> Analysis:
            texts.append(source.text)
            return super().check(source)

    monkeypatch.setattr(file_check, "Analyzer", Counting)
    return texts


def found(cli: Cli, *arguments: str) -> list[tuple[str, int]]:
    outcome = cli("check", *arguments, "--output-format", "json")
    return [(each["code"], each["start"]["line"]) for each in outcome.findings]


def test_a_file_that_has_not_changed_is_not_analysed_again(cli: Cli, checked: list[str]) -> None:
    cli.write("loss.py", FAULTY)
    first = cli("check", ".")
    assert "DG304" in first.out
    count = len(checked)
    assert cli("check", ".") == first
    assert len(checked) == count > 0
    assert cli("check", "--no-cache", ".") == first
    assert len(checked) > count


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("loss.py", FAULTY.replace("F.softmax(x, dim=1)", "x")),
        ("pyproject.toml", '[tool.drygrad]\nignore = ["DG304"]\n'),
    ],
)
def test_what_it_rests_on_changes(cli: Cli, checked: list[str], name: str, text: str) -> None:
    cli.write("loss.py", FAULTY)
    cli.write("pyproject.toml", "")
    assert found(cli, ".") == [("DG304", 7)]
    cli.write(name, text)
    assert found(cli, ".") == []
    assert checked


@pytest.mark.parametrize("was", ["there", "missing", "another"])
def test_a_module_that_it_imports_changes(cli: Cli, checked: list[str], was: str) -> None:
    cli.write("train.py", TRAIN)
    if was != "missing":
        cli.write("nets.py", NETS if was == "there" else NETS.replace("nn.Module", "dict"))
    before = found(cli, "train.py")
    count = len(checked)
    assert found(cli, "train.py") == before
    assert len(checked) == count, "it is known"
    cli.write("nets.py", NETS.replace("pass", "training = True"))
    after = found(cli, "train.py")
    assert len(checked) > count, "it is not known any more"
    assert after == found(cli, "--no-cache", "train.py")


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b'{"rests_on": [], "findings": [{}]}', b"[" * 100_000])
def test_a_broken_entry_is_as_good_as_none(cli: Cli, checked: list[str], tmp_path: Path, broken: bytes) -> None:
    cli.write("loss.py", FAULTY)
    first = cli("check", "loss.py")
    (entry,) = (tmp_path / "kept").glob("check/??/*")
    entry.write_bytes(broken)
    assert cli("check", "loss.py") == first


def test_a_folder_that_cannot_be_written_hinders_nothing(
    cli: Cli, checked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv(result_cache.VARIABLE, str(file))
    cli.write("loss.py", FAULTY)
    assert found(cli, "loss.py") == [("DG304", 7)]
    assert checked


def test_the_project_has_no_word_in_it(cli: Cli, checked: list[str]) -> None:
    before = {*cli.folder.rglob("*")}
    cli.write("loss.py", FAULTY)
    found(cli, "loss.py")
    inside = {path for path in cli.folder.rglob("*") if "kept" not in path.parts} - before
    assert {path.name for path in inside} == {"loss.py"}


def test_what_was_not_used_for_long_is_forgotten(cli: Cli, checked: list[str], tmp_path: Path) -> None:
    cli.write("loss.py", FAULTY)
    found(cli, "loss.py")
    kept = tmp_path / "kept" / "check"
    (entry,) = kept.glob("??/*")
    os.utime(entry, (0, 0))
    os.utime(kept / "swept", (0, 0))
    cli.write("other.py", "import torch\n")
    found(cli, "other.py")
    assert not entry.exists()
