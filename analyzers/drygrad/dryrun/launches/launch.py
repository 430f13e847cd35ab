"""One start of a program, as its users know it: what is started, with which arguments, variables and folder."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

_BLANK = re.compile(r"<[^<>]+>|\$[A-Za-z_{(]|`|^\[-?|^\.\.\.$|\u2026|\{\{|^/?path/to\b|/path/to/")
_MOST_DEVICES = 8
"""So many a machine may have."""

Kind = Literal["script", "module", "function", "tests"]
"""What is started: ``python train.py``, ``python -m pkg.train``, a function of ``[project.scripts]``, ``pytest``."""


class LaunchError(Exception):
    """A command that cannot be read, or starts nothing that can be run; its text says why, to users."""


@dataclass(frozen=True)
class Origin:
    """Where a launch was found: a file, its line there, and what the file calls it, if anything."""

    path: Path
    line: int
    name: str = ""

    def shown(self, folder: Path) -> str:
        """Return it as users read it, from a folder."""
        path = self.path.relative_to(folder) if self.path.is_relative_to(folder) else self.path
        return f"{path.as_posix()}:{self.line}"


@dataclass(frozen=True)
class Launch:
    """One start of a program.

    ``program`` is a script, a module, or ``module:function``, in the user's words; ``file`` the file that has its text.
    ``folder`` is the one that it is started in; ``ranks`` counts the processes of all machines together.
    """

    kind: Kind
    program: str
    file: Path
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: Path = field(default_factory=Path.cwd)
    ranks: int = 1
    through: tuple[str, ...] = ()
    """The commands in front of the program, such as ``torchrun``."""
    origin: Origin | None = None
    told: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that the commands in front of the program give it by themselves."""

    @property
    def shown(self) -> str:
        """The command that starts it without anything in front, as one types it."""
        started = {"script": ("python", self.program), "module": ("python", "-m", self.program)}
        words = started.get(self.kind, (self._name,))
        named = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*named, *(shlex.quote(word) for word in (*words, *self.arguments))])

    @property
    def _name(self) -> str:
        """What a console script is called."""
        return self.through[-1] if self.kind == "function" and self.through else self.program

    @property
    def blanks(self) -> tuple[str, ...]:
        """Words that somebody must fill in: ``<data>``, ``$DATA``, ``[--lr LR]``, ``...``."""
        given = (*self.arguments, *self.environment.values())
        return tuple(word for word in given if _BLANK.search(word))

    @property
    def only_asks(self) -> bool:
        """Whether it has the program tell its usage, and nothing else."""
        return bool({"-h", "--help", "--version"}.intersection(self.arguments))

    @property
    def completed(self) -> str:
        """The beginning of the command of ours that more arguments complete."""
        commands = {"module": f"-m {self.program} --", "script": f"{shlex.quote(self.program)} --"}
        begun = commands.get(self.kind, f"-- {self._name}")
        return " ".join(["drygrad run", begun, *(shlex.quote(word) for word in self.arguments)])

    @property
    def devices(self) -> int:
        """How many GPUs each of its processes sees."""
        listed = self.environment.get("CUDA_VISIBLE_DEVICES")
        named = len([name for name in listed.split(",") if name.strip()]) if listed else self.ranks
        return min(max(1, named), _MOST_DEVICES)

    @property
    def hides_devices(self) -> bool:
        """Whether the program is to see no GPU."""
        return self.environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")

    @property
    def sys_path(self) -> tuple[Path, ...]:
        """The folders in which Python looks first for what the program imports."""
        own = {"script": self.file.parent, "module": self.folder}.get(self.kind)
        listed = self.environment.get("PYTHONPATH", "").split(os.pathsep)
        return (*((own,) if own else ()), *(self.folder / entry for entry in listed if entry))

    def found_at(self, origin: Origin) -> Launch:
        """Return it as found in a file."""
        return replace(self, origin=origin)

    def as_json(self) -> dict[str, Any]:
        """Return it as it crosses the wire."""
        argv0 = {"module": str(self.file), "function": self._name}
        return {
            "kind": self.kind,
            "program": self.program,
            "argv": [argv0.get(self.kind, self.program), *self.arguments],
            "environment": {**self.told, **self.environment},
            "folder": str(self.folder),
            "ranks": self.ranks,
            "through": list(self.through),
        }
