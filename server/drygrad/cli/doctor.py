"""``drygrad doctor``: what there is on this machine, what a dry run can do here, and what is wrong."""

from __future__ import annotations

import argparse
import asyncio
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from drygrad.dryrun.choice import choose
from drygrad.dryrun.remote.mirror import Mirror
from drygrad.dryrun.remote.paths import Paths
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.states import State
from drygrad.interpreters import Interpreter
from drygrad.launchers import Profile
from drygrad.project import Project, load_project
from drygrad.static.registry import all_rules
from drygrad.version import __version__

from .running import home_of, interpreter_for
from .terminal import one_line

PACKAGES = ("pygls", "lsprotocol", "jedi", "pathspec", "rich")
EDITORS = {"code": "VS Code", "nvim": "Neovim", "emacs": "Emacs", "hx": "Helix", "zed": "Zed", "subl": "Sublime Text"}

PROBLEM = "  problem"


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status: 2 where the settings are broken, a package or a worker is missing."""
    project = load_project(Path(arguments.path))
    healthy = not project.problems
    interpreter = interpreter_for(project, arguments.python)
    for label, text in [*_own(), *_settings(project), *_dry_run(project, interpreter, arguments), *_editors()]:
        healthy = healthy and text != "not installed" and label != PROBLEM
        sys.stdout.write(f"{label:12} {one_line(text)}\n")
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
        yield PROBLEM, str(problem)


def _dry_run(project: Project, interpreter: Interpreter, arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    home = home_of(project, interpreter, arguments.launcher)
    if isinstance(home.launcher, Profile):
        yield from _elsewhere(home, home.launcher)
        return
    yield "interpreter", f"{interpreter.path} (from {interpreter.origin})"
    is_running = Path(sys.prefix) == interpreter.path.parent.parent
    if interpreter.is_of_the_project and not (is_running or arguments.trust):
        yield "dry run", "not tried: that would start a program of the project; --trust allows it"
        return
    yield from _worker(home)


def _elsewhere(home: Home, profile: Profile) -> Iterator[tuple[str, str]]:
    """Say what a profile comes to, and try it."""
    yield "launcher", f"{profile.name or profile.shown}: {shlex.join(profile.command)}"
    yield "interpreter", f"{profile.python or profile.engine.python or home.interpreter} there"
    if profile.sends_files:
        count, size = Mirror(home.root).size
        yield "files", f"{count} files of the project are sent, {size / 1024:.0f} KiB"
    else:
        yield "files", f"expected there as {Paths(profile.paths).there(str(home.root))}"
    if shutil.which(profile.command[0]) is None:
        yield PROBLEM, f"{profile.command[0]} is not installed here"
        return
    yield from _worker(home)


def _worker(home: Home) -> Iterator[tuple[str, str]]:
    began = time.monotonic()
    state = asyncio.run(worker_state(home))
    if state.name == "failed":
        label = "dry run" if state.unusable and not isinstance(home.launcher, Profile) else PROBLEM
        yield label, f"not possible: {state.why}; the static checks do not need it"
        return
    yield "torch", f"{state.torch}, Python {state.python}"
    yield "worker", f"started in {time.monotonic() - began:.1f} s"
    yield "GPU", _gpus(state.cuda)
    works = state.sim.get("works")
    yield "simulated", "works" if works else "not tried" if works is None else f"does not work: {state.sim.get('why')}"
    device, why = choose(state)
    yield "device", f"{device} ({why})"
    yield from _sandbox(state.sandbox)


async def worker_state(home: Home) -> State:
    """Start a worker there; return what it says of itself, or why it does not."""
    runs = DryRuns()
    try:
        return await runs.state(home)
    finally:
        await runs.close()


def _gpus(cuda: Mapping[str, Any]) -> str:
    if not cuda.get("available"):
        return f"none{': ' + str(cuda['why']) if cuda.get('why') else ''}"
    gpus = zip(cuda.get("devices") or [], cuda.get("free_bytes") or [], strict=False)
    return ", ".join(f"{name} with {free / (1 << 30):.1f} GiB free" for name, free in gpus)


def _sandbox(layers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    label = "sandbox"
    for layer, holds in layers.items():
        yield label, f"{layer}: {'holds' if holds is True else holds or 'does not hold'}"
        label = ""
    if not layers:
        yield label, "none"


def _editors() -> Iterator[tuple[str, str]]:
    found = [name for command, name in EDITORS.items() if shutil.which(command)]
    yield "editors", ", ".join(found) or "none on PATH"
    yield "", "an editor starts the language server with: drygrad server"
