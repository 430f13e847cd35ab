"""``drygrad run`` of a program with its command line: what the program sees, and what is said of a line that lacks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Cli, Outcome, run_here

TRAIN = """\
import argparse
import os
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, required=True)
args = parser.parse_args()
print("SEEN", sys.argv, os.getcwd(), os.environ.get("FLAVOUR"), os.environ.get("RANK"), torch.cuda.device_count())
torch.ones(3)[args.size]
"""
CLI = """\
import sys

import torch


def main():
    print("SEEN", sys.argv, __name__)
    torch.ones(3)[len(sys.argv)]
"""
TESTS = """\
import pytest
import torch


@pytest.fixture
def layer():
    return torch.nn.Linear(4, 2)


@pytest.mark.parametrize("width", [4, 5])
def test_layer(layer, width):
    layer(torch.ones(3, width))


def test_other(layer):
    raise ValueError
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("launched")
    for name, text in {
        "train.py": TRAIN,
        "pytest.ini": "[pytest]\naddopts = --drygrad --drygrad-fail-on=never\n",
        "pkg/__init__.py": "",
        "pkg/cli.py": CLI,
        "test_layer.py": TESTS,
        "pyproject.toml": '[project]\nname = "x"\nversion = "1"\n[project.scripts]\nfit = "pkg.cli:main"\n',
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def call(folder: Path, *arguments: str) -> Outcome:
    before, separated, behind = f"{' '.join(arguments)} ".partition("-- ")
    words = [*before.split(), *("--experiment-time 0 --verify-time 0.1 --device sim --python".split()), sys.executable]
    return run_here("run", *words, *(["--", *behind.split()] if separated else []), cwd=folder)


@pytest.mark.parametrize(
    ("command", "seen", "found"),
    [
        ("train.py -- --size 7", "['train.py', '--size', '7'] {folder} None None 1", ("DG302", "train.py", 11)),
        (
            "-- FLAVOUR=salt torchrun --nproc-per-node 2 train.py --size 7",
            "['train.py', '--size', '7'] {folder} salt 0 2",
            ("DG302", "train.py", 11),
        ),
        ("-- fit a b", "['fit', 'a', 'b'] pkg.cli", ("DG302", "pkg/cli.py", 8)),
        ("-m pkg.cli", "", None),
        ("-- pytest test_layer.py::test_layer", "", ("DG314", "test_layer.py", 12)),
    ],
)
def test_a_program_sees_what_its_launch_gives(
    folder: Path, command: str, seen: str, found: tuple[str, str, int] | None
) -> None:
    outcome = call(folder, command)
    assert seen.format(folder=folder) in outcome.out
    expected = f"{found[1]}:{found[2]}:" if found else "Found nothing in 1 file; 1 run: 1 passed."
    assert expected in outcome.out, outcome
    assert not found or f"error[{found[0]}]" in outcome.out
    assert outcome.status == (1 if found else 0)


def test_of_a_file_that_is_given_arguments_the_script_alone_is_run(folder: Path) -> None:
    outcome = run_here(
        "run", "pkg/cli.py", "--output-format", "json", "--python", sys.executable, "--", "x", cwd=folder
    )
    runs: list[dict[str, Any]] = json.loads(outcome.out)["runs"]
    assert [(run["target"], run["outcome"]) for run in runs] == [("pkg/cli.py", "passed")]


def test_a_program_that_lacks_arguments_is_told_with_the_line_to_complete(folder: Path) -> None:
    outcome = call(folder, "train.py --")
    assert outcome.status == 2
    assert (
        "train.py:9:8: info[DG901]: the program was started without command-line arguments: the following"
        in outcome.out
    )
    assert "= usage: train.py [-h] --size SIZE" in outcome.out
    assert "= complete this command: drygrad run train.py -- --size ...\n" in outcome.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to run: name a file, -m and a module, or -- and a command"),
        (["--"], "the command is missing"),
        (["-m", "pkg"], "`pkg` is a package without `__main__` and cannot be started with -m"),
        (["-m", "pkg.cli", "train.py"], "-m pkg.cli and train.py: name only one of them"),
        (["gone.py", "--", "--a"], "gone.py: no such file in "),
        (["--", "make", "train"], "`make` is not a command that drygrad can follow to a Python program"),
    ],
)
def test_a_launch_that_cannot_be_read_is_said_and_ends_with_status_2(cli: Cli, words: list[str], said: str) -> None:
    cli.write("pkg/__init__.py", "")
    cli.write("train.py", "")
    outcome = cli("run", *words)
    assert (outcome.status, outcome.err.startswith(f"drygrad: {said}")) == (2, True), outcome.err


def test_what_a_program_lacks_is_taken_from_the_projects_launches(folder: Path) -> None:
    (folder / "README.md").write_text("```\npython train.py --size <n>\nFLAVOUR=sweet python train.py --size 7\n```\n")
    outcome = call(folder, "train.py")
    assert "started as README.md:3 does: FLAVOUR=sweet python train.py --size 7" in outcome.out
    assert ("train.py:11:1: error[DG302]" in outcome.out, outcome.status) == (True, 1)
    by_name = call(folder, "--launch README.md:3")
    assert "started as README.md:3 does" in by_name.out
    assert "train.py:11:1: error[DG302]" in by_name.out


def test_launches_are_listed(cli: Cli) -> None:
    cli.write("train.py", "")
    cli.write("Makefile", "fit:\n\ttorchrun --nproc-per-node 2 train.py --data $$DATA --x 'a b'\n")
    listed = cli("launches")
    assert (listed.status, listed.out) == (
        0,
        "Makefile:2  fit  python train.py --data '$DATA' --x 'a b'  # 2 processes; to fill in: $DATA\n",
    )
    entry = json.loads(cli("launches", "train.py", "--output-format", "json").out)["launches"][0]
    assert (entry["path"], entry["line"], entry["name"], entry["ranks"]) == ("Makefile", 2, "fit", 2)
    assert cli("launches", "gone").status == 2
    cli.write(".vscode/launch.json", "{")
    broken = cli("launches")
    assert (broken.status, "launch.json:1: it is not JSON with comments" in broken.err) == (2, True)
    assert "Makefile:2" in broken.out


def test_what_the_project_sets_for_dry_runs_holds_where_no_option_speaks(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.drygrad.run]\nlaunch = "python train.py --size 7"\ninterpreter = "{sys.executable}"\ndevice = "cpu"\n'
        'experiment-time = 0\nverify-time = 0.1\nenvironment = { FLAVOUR = "umami" }\n'
    )
    outcome = run_here("run", cwd=tmp_path)
    assert "started as pyproject.toml:2 does: FLAVOUR=umami python train.py --size 7" in outcome.out
    assert f"SEEN ['train.py', '--size', '7'] {tmp_path} umami None 0" in outcome.out
    assert (outcome.status, "failed on the CPU" in outcome.out) == (1, True)
