"""``drygrad run`` of a notebook: its cells are one program, and what is told names the cells."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Cli

CELLS = [
    ("markdown", "# A notebook\n"),
    ("code", "%matplotlib inline\nimport torch\n"),
    ("code", "def scaled(x):\n    y = x * 2\n    return y[torch.tensor(5)]\n"),
    ("code", "!ls\ndisplay(1)\ndata = torch.zeros(4)\n%time scaled(data)\n"),
]


WRITES = """\
# dry-run: x=torch.rand(4, 3, requires_grad=True)
def limited(x):
    rate = x.exp()
    rate.clamp_(max=2.0)
    return rate.log()
"""


def notebook(cells: Sequence[tuple[str, str]]) -> str:
    listed: list[dict[str, Any]] = [{"cell_type": kind, "metadata": {}, "source": text} for kind, text in cells]
    return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def book(cli: Cli) -> Path:
    return cli.write("book.ipynb", notebook(CELLS))


@pytest.mark.parametrize("target", ["book.ipynb::scaled", "book.ipynb"])
def test_findings_and_shapes_are_in_their_cells(cli: Cli, book: Path, target: str) -> None:
    options = ("--device", "cpu", "--python", sys.executable)
    answer = json.loads(cli("run", target, *options, "--output-format", "json").out)
    (fault,) = [found for found in answer["findings"] if found["witness"] == "dry-run"]
    assert (fault["cell"], fault["start"]["line"], fault["severity"]) == (3, 3, "error")
    run = next(each for each in answer["runs"] if each["target"] == "book.ipynb::scaled")
    assert run["outcome"] == "failed"
    assert [(each["cell"], each["line"], each["name"]) for each in run["shapes"]] == [(3, 2, "y"), (4, 3, "data")]
    assert book.read_text() == notebook(CELLS)
    text = cli("run", target, *options).out
    assert "book.ipynb:cell 3:3:" in text
    assert "drygrad cell" not in text


def test_a_related_place_is_shown_with_the_line_of_its_own_cell(cli: Cli) -> None:
    first = "import torch\nx = torch.ones(3, requires_grad=True)\ny = x.exp()\n"
    cli.write("book.ipynb", notebook([("code", first), ("code", "a = 1\ny.add_(1)\nb = 2\ny.sum().backward()\n")]))
    lines = cli("run", "book.ipynb", "--device", "cpu", "--python", sys.executable).out.splitlines()
    saved = next(number for number, line in enumerate(lines) if "saves its output for backward (in cell 1):" in line)
    assert lines[saved + 1] == "3 | y = x.exp()"
    assert lines[1] == "2 | y.add_(1)"


def test_a_verified_fix_changes_its_cell_and_nothing_else(cli: Cli) -> None:
    cells = [CELLS[0], ("code", "!ls\nimport torch\n"), ("code", WRITES)]
    book = cli.write("book.ipynb", notebook(cells))
    done = cli("run", "book.ipynb::limited", "--device", "cpu", "--python", sys.executable, "--unsafe-fixes")
    assert done.status == 0, done.out
    repaired = WRITES.replace("rate.clamp_(max=2.0)", "rate = rate.clamp(max=2.0)")
    assert book.read_text() == notebook([*cells[:2], ("code", repaired)])
