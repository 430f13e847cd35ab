"""``drygrad doctor``: what there is on this machine, and what is wrong with it."""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from drygrad.interpreters import find_interpreter, probe
from drygrad.project import Project, load_project
from drygrad.static.registry import all_rules
from drygrad.version import __version__

PACKAGES = ("pygls", "lsprotocol", "jedi", "pathspec", "rich")
EDITORS = {"code": "VS Code", "nvim": "Neovim", "emacs": "Emacs", "hx": "Helix", "zed": "Zed", "subl": "Sublime Text"}


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status: 2 where the settings are broken or a package is missing."""
    project = load_project(Path(arguments.path))
    healthy = not project.problems
    for label, text in [*_own(), *_settings(project), *_torch(project.root), *_editors()]:
        healthy = healthy and text != "not installed"
        sys.stdout.write(f"{label:12} {text}\n")
    return 0 if healthy else 2


def _own() -> Iterator[tuple[str, str]]:
    yield "drygrad", f"{__version__}, {len(all_rules())} rules"
    yield "python", f"{platform.python_version()} ({sys.executable}) on {platform.platform()}"
    for package in PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, "not installed"


def _settings(project: Project) -> Iterator[tuple[str, str]]:
    yield "root", str(project.root)
    yield "settings", str(project.config or "none: there is no pyproject.toml with [tool.drygrad]")
    for problem in project.problems:
        yield "  problem", str(problem)


def _torch(root: Path) -> Iterator[tuple[str, str]]:
    interpreter = find_interpreter(root)
    yield "interpreter", f"{interpreter.path} (from {interpreter.origin})"
    answer = probe(interpreter)
    if answer.problem:
        yield "  problem", answer.problem
    elif answer.torch is None:
        yield "torch", "not found there; the static checks do not need it"
    else:
        build = f"built for CUDA {answer.cuda}" if answer.cuda else "built without CUDA"
        yield "torch", f"{answer.torch} ({build}), Python {answer.python}"


def _editors() -> Iterator[tuple[str, str]]:
    found = [name for command, name in EDITORS.items() if shutil.which(command)]
    yield "editors", ", ".join(found) or "none on PATH"
    yield "", "an editor starts the language server with: drygrad server"
