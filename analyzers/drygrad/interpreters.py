"""The user's Python: which one it is, and which torch it has. Nothing of it is imported here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_PROBE = """
import importlib.util, json, runpy, sys
from importlib import metadata
sys.path[:] = [entry for entry in sys.path if entry]
spec = importlib.util.find_spec("torch")
version = cuda = None
if spec and spec.origin:
    names = runpy.run_path(spec.origin.replace("__init__.py", "version.py"))
    version, cuda = names.get("__version__"), names.get("cuda")
print(json.dumps({"python": sys.version.split()[0], "torch": version, "cuda": cuda}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python, and why it is the one."""

    path: Path
    origin: str


@dataclass(frozen=True)
class Probe:
    """What an interpreter said of itself; ``problem`` says why it said nothing."""

    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    problem: str | None = None


def find_interpreter(root: Path, chosen: str | None = None) -> Interpreter:
    """Return the interpreter for a project: the chosen one, VIRTUAL_ENV, .venv, CONDA_PREFIX, or the one on PATH."""
    if chosen:
        return Interpreter(Path(chosen), "chosen")
    homes = [(os.environ.get("VIRTUAL_ENV"), "VIRTUAL_ENV"), (root / ".venv", ".venv of the project")]
    for home, origin in [*homes, (os.environ.get("CONDA_PREFIX"), "CONDA_PREFIX")]:
        if home and (python := _python_in(Path(home))):
            return Interpreter(python, origin)
    found = shutil.which("python3") or shutil.which("python")
    return Interpreter(Path(found), "PATH") if found else Interpreter(Path(sys.executable), "drygrad's own")


def _python_in(home: Path) -> Path | None:
    candidates = (home / "bin" / "python", home / "Scripts" / "python.exe", home / "python.exe")
    return next((path for path in candidates if path.is_file()), None)


def site_packages(interpreter: Interpreter) -> tuple[str, ...]:
    """Return where an interpreter keeps installed packages, by the folders around it: it is not started."""
    home = interpreter.path.parent.parent
    found = [*home.glob("lib/python3*/site-packages"), *home.glob("Lib/site-packages")]
    return tuple(sorted(map(str, found)))


def probe(interpreter: Interpreter, seconds: float = 20) -> Probe:
    """Ask an interpreter for its version and its torch, without importing torch, within a time bound."""
    command = [str(interpreter.path), "-c", _PROBE]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=seconds, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        return Probe(problem=f"no answer within {seconds:g} s")
    except OSError as error:
        return Probe(problem=f"cannot start: {error.strerror}")
    try:
        return Probe(**json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return Probe(problem=last[0])
