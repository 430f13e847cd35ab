"""Complete right programs, in the styles that people write: each runs, and nothing is said against it.

Both witnesses look at each: the check at its files, dry runs at every function of them and at its scripts. Experiments
follow the runs of a fixed sample; with DRYGRAD_RIGHT_ALL=1, all runs.
"""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_harness import environment, program
from forked import Forks

pytest.importorskip("torch")

HERE = Path(__file__).resolve().parent
LAUNCH = "# launch:"
LAUNCHER = "torch.distributed.run"
HEAD_LINES = 5
STYLES = sorted(folder.name for folder in HERE.iterdir() if folder.is_dir() and folder.name != "__pycache__")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
PYTHON = os.environ.get("DRYGRAD_RIGHT_PYTHON", sys.executable)
"""The interpreter that has what the programs import."""


def name_of(path: Path) -> str:
    return path.relative_to(HERE).as_posix()


def style_of(path: Path) -> str:
    return path.relative_to(HERE).parts[0]


def each(paths: Iterable[Path]) -> pytest.MarkDecorator:
    """Return a test's parameters: one process looks at all programs of a style, for they share what a command says."""
    parameters = [pytest.param(p, id=name_of(p), marks=pytest.mark.xdist_group(style_of(p))) for p in paths]
    return pytest.mark.parametrize("path", parameters)


def is_script(path: Path) -> bool:
    """Say whether a file of a package is what one starts; of the other styles, each is."""
    return style_of(path) != "packages" or "__main__" in path.read_text("utf-8")


FILES = sorted(path for style in STYLES for path in (HERE / style).rglob("*") if path.suffix in (".py", ".ipynb"))
SCRIPTS = [path for path in FILES if is_script(path)]
EVERY = 12
SAMPLE = [path for path in FILES if style_of(path) != "packages"][::EVERY]
EXPERIMENTED = frozenset(FILES if os.environ.get("DRYGRAD_RIGHT_ALL") else SAMPLE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the programs: some write files beside them, and our own settings leave them out."""
    copy = tmp_path_factory.mktemp("programs") / "right"
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("__pycache__", "test_*.py"))
    return copy


def cells_of(path: Path) -> str:
    """Return the code of a notebook as one program, without the lines that are IPython's."""
    lines: list[str] = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        goes_on = False
        for line in "".join(cell["source"]).splitlines() if cell["cell_type"] == "code" else ():
            is_magic = goes_on or line.lstrip().startswith(("!", "%"))
            goes_on = is_magic and line.endswith("\\")
            lines += [] if is_magic else [line]
    return "\n".join(lines)


def command_of(path: Path) -> list[str]:
    """Return what starts a program, without Python: what its ``# launch:`` line says, else its file."""
    if path.suffix == ".ipynb":
        script = path.with_suffix(".cells.py")
        script.write_text(cells_of(path), "utf-8")
        return [str(script)]
    head = path.read_text("utf-8").splitlines()[:HEAD_LINES]
    launch = next((line.partition(LAUNCH)[2] for line in head if line.startswith(LAUNCH)), "python {file}")
    launcher, *words = shlex.split(launch.format(file=path))
    return [*(() if launcher == "python" else ("-m", LAUNCHER)), *words]


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    forks = Forks("torch", env=ENVIRONMENT, python=PYTHON)
    yield forks
    forks.close()


@each(SCRIPTS)
def test_a_right_program_runs(path: Path, folder: Path, forks: Forks) -> None:
    copy = folder / path.relative_to(HERE)
    command = command_of(copy)
    status, said = launched(command, copy.parent) if LAUNCHER in command else forked(forks, command, copy.parent)
    assert status == 0, said[-2_000:]


def forked(forks: Forks, command: Sequence[str], folder: Path) -> tuple[int, str]:
    program = forks.start(command, {}, cwd=str(folder), joined=True)
    program.stdin.close()
    with program.stdout:
        said = program.stdout.read().decode(errors="replace")
    return program.wait(), said


def launched(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Start processes that look for each other, once more where they miss: the machine may be busy."""
    for _ in range(2):
        done = subprocess.run(
            [PYTHON, *command],
            cwd=folder,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode == 0:
            break
    return done.returncode, done.stdout.decode(errors="replace")


def answer_of(*arguments: str, folder: Path) -> dict[str, Any]:
    command = program(*arguments, "--output-format", "json", "--no-progress")
    done = subprocess.run(
        command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.stdout, done.stderr.decode()
    return json.loads(done.stdout)


class Answers:
    """What each command says of the programs of a style: they share a worker, as those of a folder do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str, bool], dict[str, Any]] = {}

    def of(self, command: str, path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the findings in a file, and its runs."""
        style, name = style_of(path), name_of(path)
        asked = command, style, path in EXPERIMENTED
        if asked not in self._known:
            self._known[asked] = self._answer(*asked)
        answer = self._known[asked]
        findings = [finding for finding in answer["findings"] if finding["path"] == name]
        return findings, [run for run in answer["runs"] if run["target"].partition("::")[0] == name]

    def _answer(self, command: str, style: str, experimented: bool) -> dict[str, Any]:
        """Return what a command says of those programs of a style that experiments follow, or of the others."""
        root = self._folder.parent / ("experimented" if experimented else "others")
        left_out = {path.name for path in FILES if style_of(path) == style and (path in EXPERIMENTED) != experimented}
        if not (root / style).exists():
            shutil.copytree(HERE / style, root / style, ignore=shutil.ignore_patterns("__pycache__", *left_out))
        options = ["--python", PYTHON, "--device", "sim", "--timeout", "200"] if command == "run" else []
        options += [] if experimented or command != "run" else ["--experiment-time", "0"]
        return answer_of(command, style, *options, folder=root)


@pytest.fixture(scope="module")
def answers(folder: Path) -> Answers:
    return Answers(folder)


def said(findings: Sequence[dict[str, Any]]) -> list[str]:
    """Return the errors and warnings in words."""
    grave = [finding for finding in findings if finding["severity"] in ("error", "warning")]
    return [f"{f['start']['line']}: {f['severity']}[{f['code']}] {f['message']}" for f in grave]


@each(FILES)
def test_the_check_says_nothing_against_it(path: Path, answers: Answers) -> None:
    findings, _ = answers.of("check", path)
    assert said(findings) == []


@each(FILES)
def test_runs_say_nothing_against_it(path: Path, answers: Answers) -> None:
    findings, runs = answers.of("run", path)
    assert said(findings) == []
    outcomes = {run["target"]: run["outcome"] for run in runs}
    script = outcomes.pop(name_of(path), "passed")
    # One that asserts what it has learnt fails where its loops were left early; a hint says so.
    left = any("which a dry run leaves early" in finding["message"] for finding in findings)
    assert script in ("passed", "unsupported", *(("failed",) if left else ())), findings
    # A function called alone may fail for want of what the program does before; that is a hint.
    fine = {"passed", "failed", "no-inputs", "blocked", "unsupported"}
    assert {run["target"]: run["reason"] for run in runs if run["outcome"] not in fine} == {}


def defines_functions(path: Path) -> bool:
    text = cells_of(path) if path.suffix == ".ipynb" else path.read_text("utf-8")
    return any(isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(ast.parse(text)))


@each(path for path in FILES if defines_functions(path))
def test_its_functions_are_run(path: Path, answers: Answers) -> None:
    _, runs = answers.of("run", path)
    assert any("::" in run["target"] for run in runs)
