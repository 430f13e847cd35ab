"""Runs the worker's smoke tests with several releases of Python and torch: `make test-versions`.

A pair that cannot be had is named: an interpreter that is not installed, a torch that has no
wheel for it, or one that comes with gigabytes of CUDA packages (`--cuda` takes these, too). Every interpreter that is
there compiles the worker, with or without torch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKER = ROOT / "analyzers" / "drygrad" / "worker"
FOLDER = ROOT / "build" / "versions"
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
TORCHES = ("2.7", "2.10", "2.13", "2.14")
SMOKE = ("tests/worker/test_worker.py", "tests/worker/test_standing_in.py", "tests/worker/test_trainers.py")
SIMULATED = tuple(f"tests/sim/test_{name}.py" for name in ("enable", "api", "messages", "memory", "unsupported"))
"""With a torch that the simulated GPU supports."""
OLDEST_SIMULATED = (2, 10)
COMPILE = """\
import pathlib, sys
for path in pathlib.Path(sys.argv[1]).rglob("*.py"):
    compile(path.read_bytes(), str(path), "exec")
"""


class NotHere(Exception):
    """Why a pair cannot be tried here."""


def main(arguments: Sequence[str]) -> int:
    """Try the pairs that were asked for; return 1 if one fails, or if none could be tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", help="a release of Python, such as 3.9; all by default")
    parser.add_argument("--torch", action="append", help="a release of torch, such as 2.7; all by default")
    parser.add_argument("--cuda", action="store_true", help="install wheels that need CUDA's packages as well")
    asked = parser.parse_args(arguments)
    outcomes = [*_outcomes(asked.python or PYTHONS, asked.torch or TORCHES, asked.cuda)]
    return 1 if "failed" in outcomes or "passed" not in outcomes else 0


def _outcomes(pythons: Sequence[str], torches: Sequence[str], cuda: bool) -> Iterator[str]:
    for python in pythons:
        try:
            interpreter = _interpreter(python)
        except NotHere as reason:
            yield _said(f"Python {python}", "not tried", str(reason))
            continue
        yield _said(f"Python {python} compiles the worker", "passed" if _compiles(interpreter) else "failed")
        for torch in torches:
            pair = f"Python {python} with torch {torch}"
            try:
                environment = _environment(interpreter, python, torch, cuda)
            except NotHere as reason:
                yield _said(pair, "not tried", str(reason))
                continue
            yield _said(pair, "passed" if _smoke(environment, torch) else "failed")


def _said(what: str, outcome: str, why: str = "") -> str:
    print(f"{what}: {outcome}{f' ({why})' if why else ''}", flush=True)
    return outcome


def _interpreter(python: str) -> str:
    """Return an interpreter of that release: on the path, or among those of pyenv."""
    shims = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{python}"), *map(str, sorted(shims.glob(f"{python}.*/bin/python")))]
    for path in filter(None, found):
        asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == python:
            return path
    raise NotHere("no such interpreter")


def _compiles(interpreter: str) -> bool:
    return subprocess.run([interpreter, "-c", COMPILE, str(WORKER)], check=False).returncode == 0


def _environment(interpreter: str, python: str, torch: str, cuda: bool) -> Path:
    """Return the interpreter of an environment with that torch, which is made once."""
    folder = FOLDER / f"python{python}-torch{torch}"
    made = folder / "bin" / "python"
    if (folder / ".installed").exists():
        return made
    subprocess.run([interpreter, "-m", "venv", "--clear", str(folder)], check=True)
    _pip(made, "--upgrade", "pip")
    wanted = f"torch=={torch}.*"
    needed = _needed(made, wanted)
    if not cuda and any(name.startswith("nvidia") for name in needed):
        raise NotHere("it comes with CUDA's packages; --cuda installs them, and so does an index of CPU builds without")
    _pip(made, wanted, "numpy")
    (folder / ".installed").touch()
    return made


def _needed(made: Path, wanted: str) -> list[str]:
    """Return the names of what an installation would install."""
    told = _pip(made, "--dry-run", "--report", "-", wanted)
    return [each["metadata"]["name"] for each in json.loads(told)["install"]]


def _pip(made: Path, *arguments: str) -> str:
    command = [str(made), "-m", "pip", "install", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHere((done.stderr.strip().splitlines() or ["pip fails"])[-1])
    return done.stdout


def _smoke(worker_python: Path, torch: str) -> bool:
    """Run the tests with drygrad's own environment, and the worker in that of the pair."""
    simulated = tuple(map(int, torch.split("."))) >= OLDEST_SIMULATED
    variables = {**os.environ, "DRYGRAD_WORKER_PYTHON": str(worker_python)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:warnings", *SMOKE, *(SIMULATED if simulated else ())]
    return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
