"""The command line that starts a worker in its sandbox."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drygrad.dryrun.remote.destination import Destination
from drygrad.launchers import Profile

WORKER = Path(__file__).resolve().parents[1] / "worker"
SANDBOX = WORKER / "sandbox"
"""Started by path, so that nothing of drygrad's environment reaches the user's interpreter."""

_ISOLATED = ("-I", "-S")


@dataclass(frozen=True)
class LaunchOptions:
    """How a worker is started; the defaults take the best layer that the system offers."""

    prefix: Sequence[str] = ()
    """A command in front, such as `ssh host`, which carries the two streams to another machine."""
    launcher_python: str = sys.executable
    """The interpreter of the launcher, on the machine where it runs; any Python of 3.9 or later will do."""
    sandbox: Path = SANDBOX
    layers: str = "auto"
    workspaces: Sequence[str] = ()
    private: str | None = None
    """Where private folders are made; None: the system's temporary folder."""


def command(python: str, worker: Path, options: LaunchOptions | None = None) -> list[str]:
    """Start the program `worker` in the interpreter `python`, confined from its first instruction."""
    options = options or LaunchOptions()
    workspaces = [word for folder in options.workspaces for word in ("--workspace", folder)]
    private = ["--private", options.private] if options.private else []
    chosen = ["--layers", options.layers, *workspaces, *private]
    return [*_launcher(options), *chosen, "--", python, str(worker)]


def probe_command(options: LaunchOptions | None = None) -> list[str]:
    """Print as JSON which layers hold: layer → true, or the reason why it does not."""
    return [*_launcher(options or LaunchOptions()), "--probe"]


def _launcher(options: LaunchOptions) -> list[str]:
    return [*options.prefix, options.launcher_python, *_ISOLATED, str(options.sandbox)]


@dataclass(frozen=True)
class Launch:
    """The command of a worker and its surroundings; ``interpreter`` is the name of its Python in messages.

    ``once`` says that the worker serves a single run and ends, for want of fork; a spare is then kept warm.
    """

    command: Sequence[str]
    interpreter: str
    once: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path | None = None
    last_words: float = 0.25
    """The seconds that the command has to clear up when it is ended."""
    destination: Destination | None = None
    """Where the worker is sent to, if it is not on this machine."""


def launch(interpreter: Path, options: LaunchOptions | None = None, folder: Path | None = None) -> Launch:
    """Return how to start the worker of an interpreter, with `folder` as its current one."""
    once = sys.platform != "linux"
    confined = command(str(interpreter), WORKER, options)
    return Launch([*confined, *["--no-fork"] * once], str(interpreter), once, _environment(), folder)


def launch_through(profile: Profile, interpreter: Path, root: Path) -> Launch:
    """Return how to send a worker to another machine and start it there, for a project."""
    destination = Destination(profile, root, str(interpreter))
    return Launch(
        destination.command, destination.shown, False, _environment(), root, last_words=5.0, destination=destination
    )


def _environment() -> dict[str, str]:
    """Return our environment without the entries of PYTHONPATH that lead to drygrad itself: they are not the user's."""
    environment = dict(os.environ)
    entries = environment.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if entry and not Path(entry, "drygrad").is_dir()]
    return {**environment, "PYTHONPATH": os.pathsep.join(kept)} if kept else environment
