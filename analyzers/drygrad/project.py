"""One project: its root, its settings, and what is wrong with them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drygrad.model import Position
from drygrad.options import validate
from drygrad.settings import RunSettings, Settings
from drygrad.toml_places import Places

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_TABLE = ("tool", "drygrad")
_RUN = "run"
_DECODE_ERROR = re.compile(r"(?P<message>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")


@dataclass(frozen=True)
class SettingsProblem:
    """A setting that was refused, at its place; line from 1, column from 0."""

    path: Path
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column + 1}: {self.message}"


@dataclass(frozen=True)
class Project:
    """A folder whose files share settings. ``config`` is the file the settings come from, if one has any."""

    root: Path
    settings: Settings
    problems: tuple[SettingsProblem, ...] = ()
    config: Path | None = None
    runs: RunSettings = field(default_factory=RunSettings)

    @property
    def interpreter(self) -> str | None:
        """The Python that the project sets for its dry runs: a path from its root, if there is one, else as written."""
        chosen = self.runs.interpreter
        inside = self.root / Path(chosen).expanduser() if chosen else None
        return str(inside) if inside is not None and inside.exists() else chosen

    def settings_for(self, path: Path) -> Settings:
        """Return the settings of one file: ``per-file-ignores`` applied."""
        if not self.settings.per_file_ignores:
            return self.settings
        relative = self.relative(path)
        return self.settings.without(
            code for spec, codes in self._per_file_specs if spec.match_file(relative) for code in codes
        )

    def excludes(self, path: Path, *, folder: bool = False) -> bool:
        """Say whether the ``exclude`` setting names a file or a folder."""
        return bool(self.settings.exclude) and self._exclude_spec.match_file(self.relative(path) + "/" * folder)

    def entered(self, folder: Path) -> Project:
        """Return the project for who has named a folder: what excludes the folder excludes nothing in it."""
        if not self.excludes(folder, folder=True):
            return self
        exclude = not_matching(self.settings.exclude, self.relative(folder) + "/")
        return replace(self, settings=replace(self.settings, exclude=exclude))

    def relative(self, path: Path) -> str:
        """Return a path as the patterns of the settings see it."""
        absolute = Path(path).absolute()
        try:
            return absolute.relative_to(self.root).as_posix()
        except ValueError:
            return absolute.as_posix()

    @cached_property
    def _exclude_spec(self) -> GitIgnoreSpec:
        return _spec(self.settings.exclude)

    @cached_property
    def _per_file_specs(self) -> list[tuple[GitIgnoreSpec, tuple[str, ...]]]:
        return [(_spec((pattern,)), codes) for pattern, codes in self.settings.per_file_ignores.items()]


def load_project(path: Path) -> Project:
    """Return the project of a file or folder.

    Its root is the nearest folder upwards whose pyproject.toml has ``[tool.drygrad]``; without one, the nearest
    that has a ``.git`` or a pyproject.toml; else the nearest with setuptools' older files, where a copy without its
    repository keeps modules that its scripts import; else the folder itself. Problems are part of the result.
    """
    start = Path(path).absolute()
    folder = start if start.is_dir() else start.parent
    folders = [folder, *folder.parents]
    for candidate in folders:
        config = candidate / "pyproject.toml"
        if config.is_file() and (project := _load(config)):
            return project
    marked = (f for f in folders if (f / ".git").exists() or (f / "pyproject.toml").is_file())
    older = (f for f in folders if (f / "setup.py").is_file() or (f / "setup.cfg").is_file())
    return Project(next(marked, None) or next(older, folder), Settings())


def _load(config: Path) -> Project | None:
    """Read one pyproject.toml; None if it says nothing of drygrad."""
    try:
        text = config.read_bytes().decode("utf-8-sig")
    except OSError as error:
        return _broken(config, Position(1, 0), f"cannot read it: {error.strerror}")
    except UnicodeDecodeError as error:
        return _broken(config, Position(1, 0), f"it is not UTF-8: {error.reason}")
    if "drygrad" not in text:
        return None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return _broken(config, *_decode_error(str(error), text)) if "tool.drygrad" in text else None
    return _from_document(config, text, document)


def _from_document(config: Path, text: str, document: dict[str, Any]) -> Project | None:
    tool = document.get("tool")
    if not isinstance(tool, dict) or "drygrad" not in tool:
        return None
    places = Places(text)
    table = cast("dict[str, object]", tool)["drygrad"]
    if not isinstance(table, dict):
        return _broken(config, places.find(_TABLE), "`tool.drygrad` must be a table")
    settings = dict(cast("dict[str, object]", table))
    runs = settings.pop(_RUN, None)
    if runs is not None and not isinstance(runs, dict):
        return _broken(config, places.find((*_TABLE, _RUN)), "`tool.drygrad.run` must be a table")
    validated = validate(settings, "file")
    of_runs = validate(cast("dict[str, object]", runs or {}), "run")
    problems: list[SettingsProblem] = []
    for complaints, home in ((validated.complaints, _TABLE), (of_runs.complaints, (*_TABLE, _RUN))):
        for complaint in complaints:
            line, column = places.find(home + complaint.key, complaint.item)
            problems.append(SettingsProblem(config, line, column, complaint.message))
    settings_read, runs_read = Settings(**validated.values), RunSettings(**of_runs.values)
    return Project(config.parent, settings_read, tuple(problems), config, runs_read)


def _broken(config: Path, position: Position, message: str) -> Project:
    return Project(config.parent, Settings(), (SettingsProblem(config, *position, message),), config)


def _decode_error(message: str, text: str) -> tuple[Position, str]:
    match = _DECODE_ERROR.match(message)
    if match is None or match["line"] is None:
        return Position(max(len(text.splitlines()), 1), 0), f"broken TOML: {match['message'] if match else message}"
    return Position(int(match["line"]), int(match["column"]) - 1), f"broken TOML: {match['message']}"


def not_matching(patterns: Iterable[str], path: str) -> tuple[str, ...]:
    """Return those of some .gitignore patterns that do not name a path."""
    return tuple(pattern for pattern in patterns if not _spec((pattern,)).match_file(path))


def _spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - most projects set no patterns, and need not wait for it

    return GitIgnoreSpec.from_lines(patterns)
