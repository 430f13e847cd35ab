"""``drygrad run`` on a project of several files: what is said of the other files names them."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Outcome, run_here

from drygrad.cli.arguments import parsed
from drygrad.cli.formats import render
from drygrad.cli.report import Report
from drygrad.cli.run import report_of
from drygrad.cli.run_files import files_of
from drygrad.walk import Projects

TRAIN = """\
import torch
from parts.model import Net, criterion, waits


def step(x, y):
    return criterion(Net()(x), y)


def slow(x):
    return waits(x)


if __name__ == "__main__":
    step(torch.randn(4, 8), torch.tensor([0, 1, 2, 5]))
    slow(torch.randn(4, device="cuda"))
"""
MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(x)


def criterion(scores, target):
    return nn.functional.cross_entropy(scores, target)


def waits(x):
    for _ in torch.utils.data.DataLoader(range(100)):
        x = x + x.sum().item()
    raise KeyError("none")
"""
PLACE = {"line": 15, "column": 12}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").touch()
    (folder / "parts").mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "parts" / "model.py").write_text(MODEL)
    return folder


def call(folder: Path, *arguments: str) -> Outcome:
    return run_here("run", *arguments, "--experiment-time", "0", "--python", sys.executable, cwd=folder)


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    """Return what one run brings, which each format writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        arguments = parsed(["run", "train.py::step", "--python", sys.executable, "--no-progress"])
        projects = Projects()
        return asyncio.run(report_of([*files_of(arguments, projects)], arguments, projects))


def written(report: Report, form: str) -> str:
    return render(report, form, io.StringIO())


def test_text_shows_the_line_of_the_other_file(report: Report) -> None:
    lines = written(report, "text").splitlines()
    assert lines[0].startswith("parts/model.py:15:12: error[DG302]: `target[3]` = 5 is outside [0, 5)")
    assert lines[1] == "15 |     return nn.functional.cross_entropy(scores, target)"
    assert any("train.py:14:29: `target` is created here" in line for line in lines)
    assert not any(line.startswith("  error") for line in lines), "the finding says it"
    assert lines[-1].startswith("Found 1 error in 2 files")


def test_json_names_the_file(report: Report) -> None:
    (finding,) = json.loads(written(report, "json"))["findings"]
    assert (finding["path"], finding["start"], finding["status"]) == ("parts/model.py", PLACE, "confirmed")
    made, classes = finding["related"]
    assert (made["path"], made["start"]["line"]) == ("train.py", 14)
    assert (classes["path"], classes["start"]["line"]) == ("parts/model.py", 8)


def test_github_annotates_the_file(report: Report) -> None:
    (line,) = written(report, "github").splitlines()
    assert line.startswith("::error file=parts/model.py,line=15,endLine=15,col=12,")


def test_sarif_locates_it_in_the_file(report: Report) -> None:
    (result,) = json.loads(written(report, "sarif"))["runs"][0]["results"]
    assert uri_and_line(result["locations"][0]) == ("parts/model.py", 15)
    assert [uri_and_line(place) for place in result["relatedLocations"]] == [("train.py", 14), ("parts/model.py", 8)]


def uri_and_line(location: dict[str, Any]) -> tuple[str, int]:
    place = location["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"]


def test_waits_notes_and_errors_name_the_file(folder: Path) -> None:
    out = call(folder, "train.py::slow", "--device", "sim").out
    assert out.startswith("parts/model.py:21:5: ")
    assert "[DG907]: KeyError: 'none'" in out.splitlines()[0]
    assert "train.py:10:5: the run started here" in out
    assert "  waits    parts/model.py:20: a value is read from the device" in out
    assert "the loop at parts/model.py:19 was stopped after 3 of 100 batches" in out


def test_a_folder_tells_it_once(folder: Path) -> None:
    told = json.loads(call(folder, ".", "--device", "cpu", "--output-format", "json").out)
    found = [(f["path"], f["start"]["line"]) for f in told["findings"] if f["code"] == "DG302"]
    assert found == [("parts/model.py", 15)]


def test_comments_and_settings_of_the_other_file_hold(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.drygrad.per-file-ignores]\n"ignored.py" = ["DG302"]\n')
    fault = "import torch\n\n\ndef pick(x):\n    return x[torch.tensor([9])]"
    (tmp_path / "silent.py").write_text(f"{fault}  # drygrad: ignore[DG302]\n")
    (tmp_path / "ignored.py").write_text(f"{fault}\n")
    (tmp_path / "told.py").write_text(f"{fault}\n")
    begins = "import torch, silent, ignored, told\n\n\n"
    names = ("silent", "ignored", "told")
    calls = (f"def {name}_():\n    {name}.pick(torch.zeros(3))\n" for name in names)
    (tmp_path / "train.py").write_text(begins + "\n\n".join(calls))
    told = json.loads(call(tmp_path, "train.py", "--device", "cpu", "--output-format", "json").out)
    assert [(f["path"], f["code"]) for f in told["findings"]] == [("told.py", "DG302")]
    assert [run["outcome"] for run in told["runs"]] == ["failed", "failed", "failed"]


LAYERS = """\
import torch


def scaled(x):
    hidden = x.exp()
    {write}
    return hidden.sum()
"""
USES = """\
import torch
from layers import scaled


def step(w):
    scaled(w).backward()
    return w.grad


if __name__ == "__main__":
    step(torch.ones(3, requires_grad=True))
"""


def test_a_fix_changes_the_other_file(tmp_path: Path) -> None:
    layers = tmp_path / "layers.py"
    layers.write_text(LAYERS.format(write="hidden.add_(1)"))
    (tmp_path / "train.py").write_text(USES)
    outcome = call(tmp_path, "train.py", "--device", "cpu", "--fix")
    assert layers.read_text() == LAYERS.format(write="hidden = hidden.add(1)")
    assert (tmp_path / "train.py").read_text() == USES
    assert (outcome.status, "2 runs: 2 passed" in outcome.out) == (0, True), outcome.out


KEPT = """\
class History:
    def __init__(self):
        self.values = []

    def note(self, value):
        self.values.append(value)
"""
KEEPS = """\
import torch
from kept import History


def train(history):
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.note(loss)


if __name__ == "__main__":
    train(History())
"""


def test_what_a_class_of_another_file_keeps_is_told_at_the_call(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(KEPT)
    (tmp_path / "train.py").write_text(KEEPS)
    told = json.loads(call(tmp_path, "train.py", "--device", "cpu", "--output-format", "json").out)
    kept = [(f["path"], f["start"]["line"]) for f in told["findings"] if f["code"] == "DG501"]
    assert kept == [("train.py", 13)]
