"""``drygrad run`` with the options of rules: ``--select``, ``--ignore``, ``--baseline``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cli_harness import Cli, Outcome, run_here

PROGRAM = """\
import torch


# dry-run: target=torch.tensor([1, 5])
def loss(target):
    scores = torch.zeros(2, 5, requires_grad=True)
    return torch.nn.functional.cross_entropy(scores.softmax(dim=1), target)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "train.py").write_text(PROGRAM)
    run_here("check", "--write-baseline", "--baseline", "known.json", "train.py", cwd=folder)
    return folder


def call(folder: Path, *options: str) -> tuple[Outcome, set[str]]:
    words = ["--python", sys.executable, "--device", "cpu", "--output-format", "json", "--verify-time", "0.1"]
    outcome = run_here("run", "train.py", *words, *options, cwd=folder)
    return outcome, {finding["code"] for finding in json.loads(outcome.out)["findings"]}


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ((), {"DG302", "DG304"}),
        (("--select", "DG304"), {"DG304"}),
        (("--ignore", "DG304"), {"DG302"}),
        (("--baseline", "known.json"), {"DG302"}),
        (("--baseline", "known.json", "--no-baseline"), {"DG302", "DG304"}),
    ],
)
def test_what_is_told_is_chosen(folder: Path, options: tuple[str, ...], codes: set[str]) -> None:
    outcome, found = call(folder, *options)
    assert found == codes
    assert outcome.status == 1


def test_the_baseline_of_the_settings_counts(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.drygrad]\nbaseline = "known.json"\n')
    try:
        assert call(folder)[1] == {"DG302"}
        assert call(folder, "--no-baseline")[1] == {"DG302", "DG304"}
        text = run_here("run", "train.py", "--python", sys.executable, "--device", "cpu", cwd=folder).out
        assert text.splitlines()[-1].endswith("1 known from the baseline.")
    finally:
        (folder / "pyproject.toml").unlink()


def test_wrong_options_are_told(cli: Cli) -> None:
    cli.write("a.py", "x = 1\n")
    assert "DX1" in cli("run", "a.py", "--select", "DX1").err
    assert cli("run", "a.py", "--baseline", "none.json").status == 2
