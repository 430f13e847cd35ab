"""``drygrad run``: what it refuses and why, and what it says of runs by the real worker."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cli_harness import Cli, Outcome, run_here, run_program

from drygrad.cli.arguments import parser
from drygrad.cli.formats.json_schema import report_schema
from drygrad.cli.run_files import File
from drygrad.cli.running import Runner, interpreter_for
from drygrad.dryrun.targets import Target
from drygrad.project import Project
from drygrad.settings import Settings

PROGRAM = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        scores = self.head(x)
        return scores


# dry-run: target=torch.tensor([1, 5])
def loss(target):
    scores = torch.zeros(2, 5, requires_grad=True)
    return nn.functional.cross_entropy(scores, target)


# dry-run: key="b"
def looked_up(key):
    print("looking for", key)
    return {"a": 1}[key]


def unknown(x):
    return bytes.fromhex(x)[7] // (len(x) - 40)


if __name__ == "__main__":
    Net(3)(torch.randn(4, 8)).sum().backward()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "train.py").write_text(PROGRAM)
    return folder


def call(folder: Path, *arguments: str) -> Outcome:
    return run_here("run", *arguments, "--python", sys.executable, cwd=folder)


@pytest.fixture(scope="module")
def answer(folder: Path) -> dict[str, Any]:
    outcome = call(folder, "train.py", "--device", "sim", "--output-format", "json")
    assert outcome.status == 1, outcome.err
    return json.loads(outcome.out)


def test_every_function_with_inputs_is_run_and_then_the_script(answer: dict[str, Any]) -> None:
    outcomes = [(run["target"], run["outcome"]) for run in answer["runs"]]
    assert outcomes == [
        ("train.py::Net.forward", "passed"),
        ("train.py::loss", "failed"),
        ("train.py::looked_up", "failed"),
        ("train.py::unknown", "no-inputs"),
        ("train.py", "passed"),
    ]


def test_the_findings_name_their_run(answer: dict[str, Any]) -> None:
    (finding,) = [f for f in answer["findings"] if f["code"] == "DG302"]
    assert (finding["path"], finding["start"]["line"], finding["severity"]) == ("train.py", 18, "error")
    assert (finding["witness"], finding["status"]) == ("dry-run", "confirmed")
    assert finding["run"] in [run["id"] for run in answer["runs"] if run["target"] == "train.py::loss"]
    assert "5 classes" in finding["message"]


def test_a_run_tells_its_circumstances(answer: dict[str, Any]) -> None:
    run = answer["runs"][0]
    assert list(run) == [
        "id",
        "target",
        "device",
        "tensors_on",
        "seed",
        "inputs",
        "comment",
        "outcome",
        "reason",
        "coverage",
        "seconds",
        "peak_memory_bytes",
        "peak_by_phase",
        "memory_by_line",
        "forecast",
        "gradients",
        "syncs",
        "shapes",
        "experiments",
        "refuted",
        "notes",
        "torch",
        "interpreter",
    ]
    assert {"name": "x", "value": "float32 [4, 8] on cpu", "source": "call"} in run["inputs"]
    (scores,) = [shape for shape in run["shapes"] if shape["name"] == "scores"]
    assert (scores["line"], scores["shape"], scores["dtype"]) == (11, [4, 3], "float32")
    assert all(set(other) == set(run) for other in answer["runs"])


def test_the_inputs_can_be_copied(folder: Path) -> None:
    lines = call(folder, "train.py::Net.forward", "--device", "cpu").out.splitlines()
    assert "  write    # dry-run: self=Net(3), x=torch.randn(4, 8)" in lines
    lines = call(folder, "train.py::looked_up", "--device", "cpu").out.splitlines()
    assert not any(line.startswith("  write") for line in lines), "they are in a comment already"


STEP = """\
import torch


def step():
    net = torch.nn.Linear(8, 3).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(9):
        net(torch.ones(4, 8).cuda()).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.empty_cache()
"""


def test_memory_by_line_gradients_and_measured_costs_are_told_in_text(folder: Path) -> None:
    (folder / "step.py").write_text(STEP)
    lines = call(folder, "step.py::step", "--device", "sim", "--experiment-time", "0").out.splitlines()
    assert any(re.fullmatch(r"  (at peak|       )  line 5: parameters 1\.0 KiB", line) for line in lines), lines
    (weight,) = [line for line in lines if line.startswith("  grads")]
    assert re.fullmatch(r"  grads    net\.weight  norm \d\S*", weight)
    assert any(line.startswith("step.py:11:9: info[DG505]") for line in lines), lines
    assert any(line.endswith("= measured in a run: waited for the device 3 times") for line in lines), lines


def test_the_text_says_it_for_people(folder: Path) -> None:
    outcome = call(folder, "train.py::looked_up", "--device", "cpu", "--seed", "7")
    assert outcome.status == 1
    lines = outcome.out.splitlines()
    assert "train.py:24:" in lines[0]
    assert "KeyError" in lines[0]
    assert any(line.startswith("train.py::looked_up: failed on the CPU in ") for line in lines)
    assert "  inputs   key = 'b' (comment)" in lines
    assert "  output   looking for b" in lines
    assert "DG302" not in outcome.out
    assert lines[-1].endswith("1 run: 1 failed.")


COPYING = """\
# dry-run: x=torch.ones(3)
def copying(x):
    x = x.cuda()
    for _ in range(2):
        total = x.sum().item()
    return total * x[x > 0].cpu()
"""


def test_the_text_says_what_is_copied_and_waited_for(folder: Path) -> None:
    (folder / "copying.py").write_text(f"import torch\n\n\n{COPYING}")
    outcome = call(folder, "copying.py::copying", "--device", "sim")
    at = outcome.out.index("  waits ")
    assert outcome.out[at:].splitlines()[:4] == [
        "  waits    line 6: copied to the device once",
        "           line 8: a value is read from the device 2 times",
        "           line 9: copied to the host once",
        "           line 9: waits for the device (aten::nonzero) once",
    ]


def test_inputs_of_the_command_line(folder: Path) -> None:
    outcome = call(folder, "train.py::unknown", "--device", "cpu", "--inputs", "x=torch.ones(2, 3)")
    assert "x = float32 [2, 3] on cpu" in outcome.out
    missing = call(folder, "train.py::unknown")
    assert missing.status == 2
    assert "found no inputs that `unknown` runs with" in missing.out
    assert "= fill in above it: # dry-run: " in missing.out


def test_an_interpreter_without_torch(folder: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    outcome = run_program("run", "train.py", "--python", str(python), cwd=folder)
    assert (outcome.status, outcome.out) == (2, "")
    assert f"no usable torch in {python}" in outcome.err
    assert "--python" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.py"], "none.py: no such file or folder"),
        (["broken.py"], "broken.py: "),
        (["good.py::forwrd"], "good.py has no function `forwrd`; did you mean `forward`?"),
        ([".::forward"], "is a folder"),
        (["book.ipynb"], "not a notebook of format 4"),
        (["cells.ipynb"], "(line 1 of cell 2, column 5)"),
        (["good.py", "--python", "/nowhere/python"], "no such interpreter"),
        (["good.py", "--python", "."], "there is no interpreter in ."),
    ],
)
def test_what_cannot_be_run_is_said(cli: Cli, arguments: list[str], message: str) -> None:
    cli.write("good.py", "def forward(x):\n    return x\n")
    cli.write("broken.py", "def forward(x:\n")
    cli.write("book.ipynb", "{}")
    cells = [{"cell_type": "code", "source": text} for text in ("x = 1", "x = (1")]
    cli.write("cells.ipynb", json.dumps({"cells": cells}))
    outcome = cli("run", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err


def test_a_comment_that_cannot_be_read_is_found_in_a_whole_file_too(cli: Cli) -> None:
    cli.write("a.py", "# dry-run: x=torch.randn(4, y=3\ndef f(x, y):\n    return x + y\n")
    outcome = cli("run", "a.py", "--python", sys.executable, "--output-format", "json")
    assert [(found["code"], found["start"]["line"]) for found in outcome.findings] == [("DG901", 1)]


@pytest.mark.parametrize(
    ("text", "count"), [("24GiB", 24 << 30), ("500MB", 500_000_000), ("1.5g", 1_500_000_000), ("7", 7)]
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert parser().parse_args(["run", "x.py", "--gpu-memory", text]).gpu_memory == count


@pytest.mark.parametrize(
    "option", [["--gpu-memory", "much"], ["--gpu-memory", "0"], ["--timeout", "-1"], ["--device", "tpu"]]
)
def test_wrong_values_are_refused(cli: Cli, option: list[str]) -> None:
    outcome = cli("run", "x.py", *option)
    assert (outcome.status, "usage: drygrad run" in outcome.err) == (2, True)


@pytest.mark.parametrize(("seconds", "complaint"), [("-1", "must be 0 or more"), ("x", "expected seconds, got 'x'")])
def test_what_is_no_time_for_experiments_is_said(cli: Cli, seconds: str, complaint: str) -> None:
    outcome = cli("run", "a.py", "--experiment-time", seconds)
    assert (outcome.status, f"argument --experiment-time: {complaint}" in outcome.err) == (2, True)


def test_an_environment_is_named_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    for name in ("env", "env/bin/python"):
        project = Project(tmp_path / "elsewhere", Settings())
        assert interpreter_for(project, name).path == tmp_path / "env" / "bin" / "python"


TWO = """\
# dry-run: x=1
def quick(x):
    return 1 // (x - 1)


# dry-run: x=1
def slow(x):
    return x
"""


def test_ctrl_c_shows_what_has_ended_by_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(TWO)
    first = Runner._outcomes  # pyright: ignore[reportPrivateUsage]

    async def outcomes(self: Runner, file: File, target: Target, *rest: Any) -> Any:
        if target.qualname == "quick":
            return await first(self, file, target, *rest)
        while "quick" not in file.outcomes:
            await asyncio.sleep(0.01)
        raise asyncio.CancelledError

    original = asyncio.run

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        """Do what asyncio.run makes of Ctrl-C: it cancels what is under way, and raises when that has ended."""
        try:
            return original(main)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(Runner, "_outcomes", outcomes)
    monkeypatch.setattr("drygrad.cli.run.asyncio.run", run)
    outcome = call(tmp_path, "train.py")
    assert (outcome.status, outcome.err) == (130, "drygrad: interrupted\n")
    assert "ZeroDivisionError" in outcome.out
    assert "train.py::quick: failed" in outcome.out


def test_sarif_has_the_runs_beside_the_results(folder: Path) -> None:
    outcome = call(folder, "train.py::Net.forward", "--device", "sim", "--output-format", "sarif")
    (run,) = json.loads(outcome.out)["runs"]
    (entry,) = run["properties"]["runs"]
    assert (entry["target"], entry["outcome"]) == ("train.py::Net.forward", "passed")
    assert "held" in {tried["outcome"] for tried in entry["experiments"]}


def test_the_json_is_what_its_schema_says(answer: dict[str, Any]) -> None:
    jsonschema.validate(answer, report_schema())
    told = {key for run in answer["runs"] for key, value in run.items() if value}
    assert told >= {"inputs", "shapes", "coverage", "notes", "experiments"}, "what is empty has shown nothing"
