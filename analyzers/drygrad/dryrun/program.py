"""A program of the project, which is run until it calls a target: what it passes are the target's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drygrad.dryrun.launches.launch import Launch
from drygrad.dryrun.layout import packages_around
from drygrad.dryrun.targets import Target, is_applied
from drygrad.static.lookup.approaches import approaches
from drygrad.static.source import Source


@dataclass(frozen=True)
class Program:
    """How a program of the project is started, and its text; ``shown`` is the path that it is shown by."""

    launch: Launch
    shown: str
    source: Source
    files: frozenset[Path] = frozenset()
    """The files of the workspace that it executes, where it has given the inputs of a run."""
    past: frozenset[int] = frozenset()
    """Lines that its first call of the target has left out: the first that comes by one of them gives the inputs."""
    skip: int = 0
    """How many calls of the target are passed over."""

    @classmethod
    def plain(cls, path: Path, shown: str, source: Source) -> Program:
        """Return a script that is started in its own folder, without arguments."""
        return cls(Launch("script", str(path), path, folder=path.parent), shown, source)

    @classmethod
    def tests(cls, path: Path, shown: str, source: Source, names: Sequence[str], root: Path) -> Program:
        """Return some tests of a file, as ``pytest`` runs them in the project's folder."""
        arguments = ("-q", *(f"{path}::{name}" for name in names))
        return cls(Launch("tests", "pytest", path, arguments, folder=root), shown, source)

    def passing_over(self, calls: int) -> Program:
        """Return it with so many calls of the target passed over, whatever they come by: the lines may move."""
        return replace(self, past=frozenset(), skip=calls)

    @property
    def path(self) -> Path:
        """The file that has its text."""
        return self.launch.file

    @property
    def package(self) -> str:
        """The package that its relative imports start from, as where ``python -m`` runs it."""
        return ".".join(folder.name for folder in reversed(packages_around(self.path, self.source)))

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that its imports are searched in first."""
        packages = packages_around(self.path, self.source)
        return (self.path.parent, *([packages[-1].parent] if packages else []))

    @property
    def start(self) -> dict[str, Any]:
        """How it is started, as that crosses the wire; and whether somebody has given its command line."""
        return {**self.launch.as_json(), "given": self.launch.origin is not None}

    @property
    def _executed(self) -> tuple[str, str]:
        """The name of the module that is executed, and its text, which a console script calls a function of."""
        if self.launch.kind != "function":
            return "__main__", self.source.text
        module, _, called = self.launch.program.partition(":")
        return module.strip(), f"{self.source.text}\n\n{called.strip()}()\n"

    def as_json(self, source: Source, target: Target, seconds: float) -> dict[str, Any]:
        """Return it as it crosses the wire, with what tells the call of a target, and how long that may take.

        ``source`` is the target's own. Tests that name what leads to it come first.
        """
        function = target.function
        assert function is not None
        name, text = self._executed
        return {
            "path": str(self.path),
            "text": text,
            "module_name": name,
            "package": self.package,
            "shown": self.shown,
            "seconds": seconds,
            "name": function.name,
            "line": function.body[0].lineno,
            "past": sorted(self.past),
            "skip": self.skip,
            "leading": dict(approaches(source.tree, str(target.qualname))) if self.launch.kind == "tests" else {},
            "applied": target.owner is not None and is_applied(function, target.owner),
        }
