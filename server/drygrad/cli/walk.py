"""Which files a check of some paths looks at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from drygrad.files import read_file
from drygrad.folders import holds_users_code
from drygrad.project import Project, load_project

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

ENDINGS = (".py", ".ipynb")


class Projects:
    """The projects of one check; the folders of a tree share one unless they have settings of their own."""

    def __init__(self) -> None:
        self._known: dict[Path, Project] = {}

    def of_folder(self, folder: Path) -> Project:
        """Return the project of a folder."""
        absolute = folder.absolute()
        project = self._known.get(absolute)
        if project is None:
            above = self._known.get(absolute.parent)
            inherits = above is not None and not (absolute / "pyproject.toml").is_file()
            project = self._known[absolute] = above if above and inherits else load_project(absolute)
        return project

    @property
    def all(self) -> list[Project]:
        """Every project met so far, each once."""
        return list({project.root: project for project in self._known.values()}.values())


class Ignored:
    """What .gitignore files leave out, those of the folders above included; the innermost one that speaks decides."""

    def __init__(self, specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        self._specs = specs

    @classmethod
    def above(cls, folder: Path) -> Ignored:
        """Return what the .gitignore files between the repository's root and a folder leave out."""
        absolute = folder.absolute()
        root = next((f for f in (absolute, *absolute.parents) if (f / ".git").exists()), None)
        if root is None or root == absolute:
            return cls()
        ignored = cls()
        for inner in reversed(absolute.parents):
            if inner == root or root in inner.parents:
                ignored = ignored.entering(str(inner))
        return ignored

    def entering(self, folder: str) -> Ignored:
        """Return what is left out in a folder, its own .gitignore added."""
        try:
            lines = read_file(Path(folder, ".gitignore")).decode("utf-8", "replace").splitlines()
        except OSError:
            return self
        from pathspec import GitIgnoreSpec  # noqa: PLC0415 - only where there is a .gitignore

        return Ignored(((str(Path(folder).absolute()), GitIgnoreSpec.from_lines(lines)), *self._specs))

    def leaves_out(self, path: str, *, folder: bool) -> bool:
        """Say whether a file or folder is left out."""
        if not self._specs:
            return False
        absolute = Path(path).absolute()
        for base, spec in self._specs:
            relative = os.path.relpath(absolute, base).replace(os.sep, "/") + "/" * folder
            verdict = spec.check_file(relative).include
            if verdict is not None:
                return verdict
        return False


def files_in(folder: str, projects: Projects, *, gitignore: bool = True) -> Iterator[str]:
    """Yield the Python files and notebooks below a folder, sorted, as paths that begin with the folder as given."""
    ignored = Ignored.above(Path(folder)) if gitignore else Ignored()
    pending = [(folder, ignored)]
    while pending:
        current, ignored = pending.pop()
        if gitignore:
            ignored = ignored.entering(current)
        project = projects.of_folder(Path(current))
        folders: list[tuple[str, Ignored]] = []
        for entry in _entries(current):
            is_folder = entry.is_dir(follow_symlinks=False)
            path = entry.name if current == "." else entry.path
            if not _wanted(entry, is_folder=is_folder) or project.excludes(Path(path), folder=is_folder):
                continue
            if ignored.leaves_out(path, folder=is_folder):
                continue
            if is_folder:
                folders.append((path, ignored))
            else:
                yield path
        pending += reversed(folders)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _wanted(entry: os.DirEntry[str], *, is_folder: bool) -> bool:
    if not is_folder:
        return entry.name.endswith(ENDINGS) and entry.is_file()
    return holds_users_code(entry)
