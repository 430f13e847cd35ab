"""The launches of a project: in the files in which people keep them, those that are meant for starting first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeAlias

from drygrad.dryrun.launches import reading
from drygrad.dryrun.launches.launch import Launch, LaunchError, Origin
from drygrad.dryrun.launches.programs import SCRIPTS, Programs
from drygrad.dryrun.launches.shell_scripts import Place, launches_in, text_of
from drygrad.dryrun.launches.sources import documents, pipelines, recipes, vscode
from drygrad.folders import holds_users_code
from drygrad.toml_places import Places

Reader: TypeAlias = Callable[[str, Place], Iterator[Launch]]

_DEEPEST = 4
_MOST_FILES = 500
_MOST_LAUNCHES = 500
_HIDDEN = (".vscode", ".github", ".devcontainer", ".circleci")


def _declared(text: str, place: Place) -> Iterator[Launch]:
    """Yield the console scripts that a pyproject.toml declares."""
    places = Places(text)
    for name in place.programs.console_scripts(place.path):
        try:
            launch = reading.read([name], place.path.parent, place.programs)
        except LaunchError:
            continue
        lines = (places.find((*table, name)).line for table in SCRIPTS)
        yield launch.found_at(Origin(place.path, next((line for line in lines if line > 1), 1), name))


_SOURCES: Sequence[tuple[str, Reader]] = (
    (".vscode/launch.json", vscode.launches),
    ("*.code-workspace", vscode.launches),
    (".vscode/tasks.json", vscode.launches),
    ("pyproject.toml", _declared),
    ("*Makefile", recipes.in_makefile),
    ("*.mk", recipes.in_makefile),
    ("*[Jj]ustfile", recipes.in_justfile),
    ("*.sbatch", launches_in),
    ("*.slurm", launches_in),
    ("*.sh", launches_in),
    ("*.bash", launches_in),
    ("*README*.md", documents.in_markdown),
    ("*README*.rst", documents.in_rst),
    ("*.md", documents.in_markdown),
    ("*.rst", documents.in_rst),
    ("*Dockerfile*", pipelines.in_dockerfile),
    ("*compose*.y*ml", pipelines.in_yaml),
    (".github/workflows/*.y*ml", pipelines.in_yaml),
    (".gitlab-ci.yml", pipelines.in_yaml),
    (".circleci/config.yml", pipelines.in_yaml),
)
"""Patterns of paths with the reader of such a file, what is meant for starting first."""


@dataclass
class Found:
    """The launches of a project, the likeliest first, and why some files could not be read."""

    launches: list[Launch] = field(default_factory=list[Launch])
    problems: list[str] = field(default_factory=list[str])

    def of(self, file: Path) -> list[Launch]:
        """Return those that start a file and leave nothing open, each command once."""
        fitting = [one for one in self.launches if one.file == file and not one.blanks and not one.only_asks]
        return [*{launch.shown: launch for launch in reversed(fitting)}.values()][::-1]


def find(root: Path) -> Found:
    """Return the launches of the project in a folder."""
    root = root.absolute()
    programs = Programs(root)
    found = Found()
    files = [*_files(root, programs)]
    for pattern, reader in _SOURCES:
        for path in [path for path in files if fnmatch(_relative(path, root), pattern)]:
            files.remove(path)
            place = Place(path, _folders(path, root), programs)
            try:
                found.launches += (one for one in reader(text_of(path), place) if one.file.name != "setup.py")
            except LaunchError as error:
                found.problems.append(str(error))
            if len(found.launches) > _MOST_LAUNCHES:
                del found.launches[_MOST_LAUNCHES:]
                return found
    return found


def _folders(path: Path, root: Path) -> tuple[Path, ...]:
    """Return the folders that the commands of a file may be meant for: the project's, its own, and those between."""
    own = root if path.parent.name in _HIDDEN or ".github" in path.parts else path.parent
    between = [folder for folder in own.parents if folder.is_relative_to(root)]
    return tuple(dict.fromkeys([root, own, *between]))


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _files(root: Path, programs: Programs) -> Iterator[Path]:
    """Yield the files that may have launches, those of outer folders first; scripts are told to who finds programs."""
    waiting = [(root, 0)]
    count = 0
    while waiting and count < _MOST_FILES:
        folder, depth = waiting.pop(0)
        try:
            with os.scandir(folder) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in inside:
            if entry.is_dir(follow_symlinks=False):
                wanted = holds_users_code(entry) or entry.name in _HIDDEN
                waiting += [(Path(entry.path), depth + 1)] if wanted and depth < _DEEPEST else []
            elif entry.name.endswith(".py"):
                programs.known.setdefault(entry.name, []).append(folder)
            elif any(fnmatch(_relative(Path(entry.path), root), pattern) for pattern, _ in _SOURCES):
                count += 1
                yield Path(entry.path)
