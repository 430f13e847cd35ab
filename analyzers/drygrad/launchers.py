"""How a dry run gets to another machine: profiles, and what is known of the programs that lead there."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

Files = Literal["sent", "shared"]

COMMAND = "{command}"
QUOTED = "{quoted}"


@dataclass(frozen=True)
class Engine:
    """What is known of a program that starts others elsewhere.

    ``added`` are options that it gets, pairs beside each other, unless the user has given them; ``behind`` are the
    subcommands after which one belongs. ``shell`` says that a shell of the other side reads the words again.
    """

    files: Files = "sent"
    python: str | None = "python3"
    """None: the project's own interpreter, which is the same one there."""
    start_limit: float = 60.0
    added: tuple[tuple[str, ...], ...] = ()
    behind: tuple[str, ...] = ()
    last: str | None = None
    """A word that must stand before the command."""
    shell: bool = False
    relay: Path | None = None
    """A program of ours that does its work, in the interpreter beside it: it has no way to connect streams itself."""


_RAY = Path(__file__).parent / "dryrun" / "remote" / "through_ray.py"
_QUEUE = Engine("shared", None, start_limit=3600.0)
_CONTAINER = Engine(added=(("-i", "--interactive"),), behind=("exec", "run"))

ENGINES: Mapping[str, Engine] = {
    "ssh": Engine(
        added=(
            ("-oBatchMode=yes", "BatchMode"),
            ("-oConnectTimeout=20", "ConnectTimeout"),
            ("-oServerAliveInterval=15", "ServerAliveInterval"),
        ),
        shell=True,
    ),
    "srun": _QUEUE,
    "salloc": _QUEUE,
    "docker": _CONTAINER,
    "podman": _CONTAINER,
    "nerdctl": _CONTAINER,
    "kubectl": Engine(added=(("-i", "--stdin"),), behind=("exec",), last="--"),
    "oc": Engine(added=(("-i", "--stdin"),), behind=("exec",), last="--"),
    "devcontainer": Engine(),
    "ray": Engine(python="python", start_limit=3600.0, last="--", relay=_RAY),
    "wsl": Engine(last="--exec"),
}
"""By the first word of a command, without its folder and without ``.exe``."""


@dataclass(frozen=True)
class Profile:
    """One way to another machine. ``paths`` are pairs of a folder here and what it is called there.

    ``idle`` are the seconds after which a worker there that no run has asked for ends.
    """

    command: tuple[str, ...]
    name: str | None = None
    python: str | None = None
    setup: str | None = None
    files: Files | None = None
    paths: tuple[tuple[str, str], ...] = ()
    start_limit: float | None = None
    restarts: int = 1
    idle: float = 600.0

    @property
    def program(self) -> str:
        """The name of its program."""
        return _program(self.command)

    @property
    def engine(self) -> Engine:
        """What is known of its program; nothing in particular where that is not one of ours."""
        return ENGINES.get(self.program, Engine())

    @property
    def sends_files(self) -> bool:
        """Whether the project's files are sent there; else they are there, below mapped paths or the same ones."""
        return (self.files or ("shared" if self.paths else self.engine.files)) == "sent"

    @property
    def limit(self) -> float:
        """The seconds until an interpreter must have begun there."""
        return self.engine.start_limit if self.start_limit is None else self.start_limit

    @property
    def shown(self) -> str:
        """The profile's name, or the command as a user would write it."""
        return self.name or shlex.join(self.command)

    def words(self, arguments: Sequence[str], own_python: str) -> list[str]:
        """Return the command that starts an interpreter there with these arguments."""
        python = self.python or self.engine.python or own_python
        words = [python, *arguments]
        if self.setup:
            words = ["bash", "-lc", f'{self.setup}\nexec "$@"', "drygrad", *words]
        quoted = [_quoted(word) for word in words]
        asked, given = self._begun(own_python), quoted if self.engine.shell else words
        if COMMAND not in asked and not any(QUOTED in word for word in asked):
            asked += [*([self.engine.last] if self.engine.last and self.engine.last not in asked else ()), COMMAND]
        line = " ".join(quoted)
        line = _quoted(line) if self.engine.shell else line
        return [one for word in asked for one in (given if word == COMMAND else [word.replace(QUOTED, line)])]

    def _begun(self, own_python: str) -> list[str]:
        """Return the command with the options that it needs."""
        if self.engine.relay is None:
            return _with_options(self.command, self.engine)
        found = shutil.which(self.command[0])
        beside = Path(found).with_name("python") if found else None
        python = str(beside) if beside and beside.exists() else own_python
        return [python, str(self.engine.relay), *self.command[1:]]


def profile_of(words: Sequence[str], profiles: Mapping[str, Profile]) -> Profile | None:
    """Return the profile that is named, or that a command of a known program makes; None for other commands."""
    if len(words) == 1 and words[0] in profiles:
        return profiles[words[0]]
    return Profile(tuple(words)) if words and _program(words) in ENGINES else None


def _program(command: Sequence[str]) -> str:
    return PurePath(command[0].replace("\\", "/")).name.removesuffix(".exe") if command else ""


def _with_options(command: Sequence[str], engine: Engine) -> list[str]:
    """Return a command with the options that it needs, where the user has not decided otherwise."""
    words = [*command]
    at = next((index + 1 for index, word in enumerate(words) if word in engine.behind), 0 if engine.behind else 1)
    if not at:
        return words
    wanted = [option for option, *names in engine.added if not any(_says(word, option, names) for word in words)]
    return [*words[:at], *wanted, *words[at:]]


def _says(word: str, option: str, names: Sequence[str]) -> bool:
    """Say whether a word is an option, under whatever name, or together with others (``-it``)."""
    together = len(option) == 2 and word.startswith("-") and not word.startswith("--") and option[1] in word
    return word == option or together or any(word == name or f"{name}=" in word for name in names)


def _quoted(word: str) -> str:
    """Return a word as a POSIX shell reads it back; a home folder in front stays what the shell makes of it."""
    if word.startswith("~/"):
        return "~/" + shlex.quote(word[2:])
    return shlex.quote(word)
