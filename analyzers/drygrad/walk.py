"""Which files a check of some paths looks at. What is named is looked at, even where settings or git leave it out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drygrad.files import read_file
from drygrad.folders import holds_users_code
from drygrad.project import Project, load_project, not_matching
from drygrad.settings import Settings

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

ENDINGS = (".py", ".ipynb")


class Projects:
    """The projects of one check; the folders of a tree share one unless they have settings of their own.

    Where no file says anything, the ``default`` settings hold.
    """

    def __init__(self, default: Settings | None = None) -> None:
        self._default = default
        self._known: dict[Path, Project] = {}

    def of_folder(self, folder: Path) -> Project:
        """Return the project of a folder."""
        absolute = folder.absolute()
        project = self._known.get(absolute)
        if project is None:
            above = self._known.get(absolute.parent)
            inherits = above is not None and not (absolute / "pyproject.toml").is_file()
            project = self._known[absolute] = above if above and inherits else self._loaded(absolute)
        return project

    def _loaded(self, folder: Path) -> Project:
        project = load_project(folder)
        return replace(project, settings=self._default) if self._default and project.config is None else project

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
        """Return what the .gitignore files between the repository's root and a folder that was named leave out in it.

        What leaves out the folder itself leaves out nothing in it.
        """
        absolute = folder.absolute()
        root = next((f for f in (absolute, *absolute.parents) if (f / ".git").exists()), None)
        if root is None or root == absolute:
            return cls()
        ignored = cls()
        for inner in reversed(absolute.parents):
            if inner == root or root in inner.parents:
                ignored = ignored.entering(str(inner), named=absolute)
        return ignored

    def entering(self, folder: str, named: Path | None = None) -> Ignored:
        """Return what is left out in a folder, its own .gitignore added, but for the patterns of what was named."""
        try:
            lines = read_file(Path(folder, ".gitignore")).decode("utf-8", "replace").splitlines()
        except OSError:
            return self
        from pathspec import GitIgnoreSpec  # noqa: PLC0415 - only where there is a .gitignore

        base, spec = str(Path(folder).absolute()), GitIgnoreSpec.from_lines(lines)
        if named and spec.match_file(inside := _relative(named, base, folder=True)):
            spec = GitIgnoreSpec.from_lines(not_matching(lines, inside))
        return Ignored(((base, spec), *self._specs))

    def leaves_out(self, path: str, *, folder: bool) -> str | None:
        """Return the .gitignore that leaves out a file or folder; None where it is not left out."""
        if not self._specs:
            return None
        absolute = Path(path).absolute()
        for base, spec in self._specs:
            verdict = spec.check_file(_relative(absolute, base, folder=folder)).include
            if verdict is not None:
                return os.path.join(base, ".gitignore") if verdict else None  # noqa: PTH118 - asked of every file
        return None


def _relative(path: Path, base: str, *, folder: bool) -> str:
    return os.path.relpath(path, base).replace(os.sep, "/") + "/" * folder


@dataclass
class Walk:
    """A walk through folders that were named; ``left_out`` are the files that have left out anything on the way.

    Where ``force`` is set, the setting `exclude` holds for what was named, too.
    """

    projects: Projects
    gitignore: bool = True
    force: bool = False
    left_out: set[str] = field(default_factory=set[str])

    def takes(self, file: str) -> bool:
        """Say whether a file that was named is looked at."""
        path = Path(file)
        return not (self.force and self._excluded(self.projects.of_folder(path.parent), path, folder=False))

    def files(self, folder: str) -> Iterator[str]:
        """Yield the Python files and notebooks below a folder, sorted, as paths that begin with the folder as given."""
        ignored = Ignored.above(Path(folder)) if self.gitignore else Ignored()
        pending = [(folder, ignored)]
        while pending:
            current, ignored = pending.pop()
            if self.gitignore:
                ignored = ignored.entering(current)
            project = self.projects.of_folder(Path(current))
            if not self.force:
                project = project.entered(Path(folder))
            folders: list[tuple[str, Ignored]] = []
            for entry in _entries(current):
                is_folder = entry.is_dir(follow_symlinks=False)
                path = entry.name if current == "." else entry.path
                if not _wanted(entry, is_folder=is_folder) or self._excluded(project, Path(path), folder=is_folder):
                    continue
                if source := ignored.leaves_out(path, folder=is_folder):
                    self.left_out.add(source)
                elif is_folder:
                    folders.append((path, ignored))
                else:
                    yield path
            pending += reversed(folders)

    def _excluded(self, project: Project, path: Path, *, folder: bool) -> bool:
        excluded = project.excludes(path, folder=folder)
        if excluded:
            self.left_out.add(str(project.config))
        return excluded


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _wanted(entry: os.DirEntry[str], *, is_folder: bool) -> bool:
    if not is_folder:
        return entry.name.endswith(ENDINGS) and entry.is_file()
    return holds_users_code(entry)
