"""The user's Python: which one it is, and where its packages are. Nothing of it is imported here."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

OF_THE_PROJECT = ".venv of the project"
OF_THE_SETTINGS = "[tool.drygrad.run]"


@dataclass(frozen=True)
class Interpreter:
    """A Python, and why it is the one."""

    path: Path
    origin: str

    @property
    def is_of_the_project(self) -> bool:
        """Whether a file of the project decides what is started."""
        return self.origin in (OF_THE_PROJECT, OF_THE_SETTINGS)


def find_interpreter(root: Path, chosen: str | None = None, file: Path | None = None) -> Interpreter:
    """Return the interpreter for a project: the chosen one, VIRTUAL_ENV, .venv, CONDA_PREFIX, or the one on PATH.

    A project may hold others, each with a .venv of its own: the one nearest to the file counts.
    """
    if chosen:
        return Interpreter(Path(chosen), "chosen")
    folders = [folder for folder in file.parents if folder.is_relative_to(root)] if file else []
    nearest = [(folder / ".venv", OF_THE_PROJECT) for folder in folders or [root]]
    first, last = ((os.environ.get(name), name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    for home, origin in [first, *nearest, last]:
        if home and (python := python_in(Path(home))):
            return Interpreter(python, origin)
    found = shutil.which("python3") or shutil.which("python")
    return Interpreter(Path(found), "PATH") if found else Interpreter(Path(sys.executable), "drygrad's own")


def python_in(home: Path) -> Path | None:
    """Return the interpreter of an environment; None where the folder is none."""
    candidates = (home / "bin" / "python", home / "Scripts" / "python.exe", home / "python.exe")
    return next((path for path in candidates if path.is_file()), None)


def site_packages(interpreter: Interpreter) -> tuple[str, ...]:
    """Return where an interpreter keeps installed packages, by the folders around it: it is not started."""
    home = interpreter.path.parent.parent
    found = [*home.glob("lib/python3*/site-packages"), *home.glob("Lib/site-packages")]
    return tuple(sorted(map(str, found)))
