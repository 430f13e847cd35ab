"""What ``drygrad run`` says of runs that show little, or nothing: its words, and its exit status."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from cli_harness import Outcome, run_here

PROGRAM = """\
import torch


# dry-run: x=exit()
def given(x):
    return x


def on_the_host():
    return torch.ones(3).sum()


def step(model, logger, x):
    logger.info("begins")
    return model(x).sum()


def asks():
    return input("? ")


def triton():
    raise RuntimeError("Torch not compiled with CUDA enabled")


def unknown(x):
    return bytes.fromhex(x)[7] // (len(x) - 40)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outcomes")
    (folder / "train.py").write_text(PROGRAM)
    return folder


def call(folder: Path, *arguments: str) -> Outcome:
    return run_here("run", *arguments, "--experiment-time", "0", "--python", sys.executable, cwd=folder)


def test_what_has_put_nothing_on_the_gpu_has_passed_on_the_cpu(folder: Path) -> None:
    outcome = call(folder, "train.py::on_the_host", "--device", "sim")
    assert (outcome.status, "train.py::on_the_host: passed on the CPU in " in outcome.out) == (0, True)
    told = json.loads(call(folder, "train.py::on_the_host", "--device", "sim", "--output-format", "json").out)
    assert [(run["device"], run["tensors_on"]) for run in told["runs"]] == [("sim", "cpu")]


def test_guessed_inputs_and_stand_ins_are_said_in_one_line(folder: Path) -> None:
    outcome = call(folder, "train.py::step", "--device", "sim")
    assert "train.py::step: passed with guessed inputs and stand-ins on sim in " in outcome.out
    assert "1 run: 1 passed with guessed inputs and stand-ins." in outcome.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train.py::asks"], "train.py::asks: blocked"),
        (["train.py::triton", "--device", "sim"], "train.py::triton: unsupported in .*: Torch not compiled with CUDA"),
        (["train.py::unknown"], "train.py::unknown: "),
        (["train.py::on_the_host", "--device", "cuda"], "unsupported: torch can use no GPU here"),
    ],
)
def test_what_could_not_be_run_is_no_success(folder: Path, arguments: list[str], words: str) -> None:
    outcome = call(folder, *arguments)
    assert outcome.status == 2
    assert re.search(words, outcome.out), outcome.out


def test_some_of_what_was_asked_for_is_enough(folder: Path) -> None:
    (folder / "half.py").write_text("def asks():\n    return input()\n\n\ndef fine():\n    return 1\n")
    assert call(folder, "half.py").status == 0


def test_an_input_that_ends_the_program_is_an_error_of_the_inputs(folder: Path) -> None:
    outcome = call(folder, "train.py::given")
    assert outcome.status == 1
    assert "train.py:4:14: error[DG907]: the input x cannot be created: the program exits with status 0" in outcome.out
