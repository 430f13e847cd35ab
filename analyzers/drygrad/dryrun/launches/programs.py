"""What a command starts, as files: scripts, modules as Python finds them, console scripts of the project."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from drygrad.dryrun.launches.launch import LaunchError
from drygrad.dryrun.layout import project_folders
from drygrad.files import read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCRIPTS = (("project", "scripts"), ("project", "gui-scripts"), ("tool", "poetry", "scripts"))
"""The tables of a pyproject.toml that name console scripts."""
_MOST_BYTES = 1 << 20
_PYTHONS = (b"python", b"pypy")


class Programs:
    """Finds the files of programs. ``root`` is the folder beyond which nobody looks for a project's settings."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self.known: dict[str, list[Path]] = {}
        """The folders of the project's scripts, by the names of these; who walks through the project tells them."""
        self._scripts: dict[Path, dict[str, str]] = {}

    def script(self, name: str, folder: Path) -> Path:
        """Return the file of a script, of a folder its ``__main__``. LaunchError where there is none."""
        path = Path(os.path.normpath(folder / name))
        if path.is_dir():
            inside = path / "__main__.py"
            if not inside.is_file():
                raise LaunchError(f"{name} is a folder without a `__main__.py`")
            return inside
        if not path.is_file():
            raise LaunchError(f"{name}: no such file in {folder}")
        return path

    def module(self, name: str, folder: Path, path: str = "") -> Path:
        """Return the file of a module of the project, of a package its ``__main__``. LaunchError without one."""
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            raise LaunchError(f"`{name}` is not a module name; use `-m pkg.train`, or the path of a script")
        for home in self._homes(folder, path):
            place = home.joinpath(*parts)
            if place.with_suffix(".py").is_file() and not (place / "__main__.py").is_file():
                return place.with_suffix(".py")
            if place.is_dir():
                if not (place / "__main__.py").is_file():
                    raise LaunchError(f"`{name}` is a package without `__main__` and cannot be started with -m")
                return place / "__main__.py"
        raise LaunchError(f"no module `{name}` in {folder}, nor where its project keeps modules")

    def source_module(self, name: str, folder: Path) -> Path | None:
        """Return the file of a module of the project that is imported, not started; None where there is none."""
        for home in self._homes(folder, ""):
            place = home.joinpath(*name.split("."))
            found = (place.with_suffix(".py"), place / "__init__.py")
            for path in found:
                if path.is_file():
                    return path
        return None

    @staticmethod
    def _homes(folder: Path, path: str) -> Iterator[Path]:
        yield folder
        yield from (folder / entry for entry in path.split(os.pathsep) if entry)
        yield from project_folders(folder / "_")

    def folders_with(self, words: Sequence[str]) -> Sequence[Path]:
        """Return the folder from which a command's script is there, if the project has only one of that name."""
        script = next((word for word in words if word.endswith(".py")), "").removeprefix("./")
        places = self.known.get(script.rpartition("/")[2], [])
        folder = places[0] if len(places) == 1 else None
        for part in reversed(script.split("/")[:-1]):
            if folder is None or folder.name != part:
                return ()
            folder = folder.parent
        return [folder] if folder is not None else ()

    def is_script(self, name: str, folder: Path) -> bool:
        """Say whether a word names a file that Python is to execute."""
        path = folder / name
        try:
            with path.open("rb") as file:
                first = file.readline(200)
        except (OSError, ValueError):  # a word of a document may be no path at all
            return False
        return first.startswith(b"#!") and any(python in first for python in _PYTHONS)

    def console_script(self, name: str, folder: Path) -> str | None:
        """Return the function that a console script of the project starts, as ``module:function``."""
        for place in (folder, *folder.parents):
            config = place / "pyproject.toml"
            if config.is_file():
                return self.console_scripts(config).get(name)
            if place == self._root:
                break
        return None

    def console_scripts(self, config: Path) -> Mapping[str, str]:
        """Return the console scripts that a pyproject.toml names; none where it cannot be read."""
        if config not in self._scripts:
            self._scripts[config] = _declared(config)
        return self._scripts[config]


def _declared(config: Path) -> dict[str, str]:
    try:
        document = tomllib.loads(read_file(config, _MOST_BYTES).decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
    found: dict[str, str] = {}
    for keys in SCRIPTS:
        table: Any = document
        for key in keys:
            table = cast("Mapping[str, Any]", table).get(key) if isinstance(table, Mapping) else None
        entries = cast("Mapping[str, object]", table).items() if isinstance(table, Mapping) else ()
        found.update({name: entry.strip() for name, entry in entries if isinstance(entry, str) and ":" in entry})
    return found
