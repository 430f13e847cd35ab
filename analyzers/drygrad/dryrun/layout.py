"""Where a file stands among packages, and the folders in which what it imports is found."""

from __future__ import annotations

import ast
import configparser
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from drygrad.parsing import parsed
from drygrad.static.source import Source

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_CONFIGURED = ("pyproject.toml", "setup.cfg", "setup.py", "pytest.ini", "tox.ini")
_FARTHEST = 8
"""No file is looked at as part of a package that lies further above it."""


def packages_around(path: Path, source: Source) -> tuple[Path, ...]:
    """Return the folders around a file that are packages for it, the nearest first.

    Those with an ``__init__.py`` are; above them those without that its imports count on: ``from .b import scale``,
    and ``from pkg.utils.b import scale`` in ``pkg/utils/a.py``.
    """
    parents = path.parents[:_FARTHEST]
    count = 0
    while count < len(parents) - 1 and (parents[count] / "__init__.py").is_file():
        count += 1
    levels, names = _imports(source.tree)
    count = max(count, min(levels, len(parents) - 1))
    for index in range(count, len(parents) - 1):
        if any(_is_in(parents[index], name) and not _is_nearer(parents[:index], name[0]) for name in names):
            count = index + 1
    return tuple(parents[:count])


def _imports(tree: ast.Module) -> tuple[int, set[tuple[str, str]]]:
    """Return the highest level of relative imports, and the first two names of the absolute ones that have two."""
    level, names = 0, set[tuple[str, str]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            parts = (alias.name.split(".") for alias in node.names)
            names.update((part[0], part[1]) for part in parts if len(part) > 1)
        elif isinstance(node, ast.ImportFrom) and node.level:
            level = max(level, node.level)
        elif isinstance(node, ast.ImportFrom) and node.module:
            first, _, rest = node.module.partition(".")
            names.update((first, second) for second in ([rest.partition(".")[0]] if rest else _names(node)))
    return level, names


def _names(node: ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names]


def _is_in(package: Path, name: tuple[str, str]) -> bool:
    return package.name == name[0] and _has(package, name[1])


def _is_nearer(folders: Any, name: str) -> bool:
    return any(_has(folder, name) for folder in folders)


def _has(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def project_folders(path: Path) -> tuple[Path, ...]:
    """Return the folders that the project around a file keeps its modules in: as it says, its ``src``, and its own."""
    for folder in path.parents:
        if any((folder / name).is_file() for name in _CONFIGURED):
            named = [folder / name for name in (*filter(None, _configured(folder)), "src", ".")]
            return tuple(dict.fromkeys(Path(each) for each in named if each.is_dir()))
        if (folder / ".git").exists():
            break
    return ()


def _configured(folder: Path) -> list[str]:
    found = [*_from_pyproject(folder / "pyproject.toml"), *_from_setup(folder / "setup.py")]
    for name in ("setup.cfg", "pytest.ini", "tox.ini"):
        found += _from_ini(folder / name)
    return found


def _from_pyproject(path: Path) -> Iterator[str]:
    """Yield the folders of setuptools, poetry, hatch, pdm, uv and pytest."""
    try:
        tool = _table(tomllib.loads(path.read_text("utf-8")), "tool")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return
    yield from _strings(_table(tool, "setuptools", "package-dir").get(""))
    yield from _strings(_table(tool, "setuptools", "packages", "find").get("where"))
    for package in _list(_table(tool, "poetry").get("packages")):
        yield from _strings(_table({"package": package}, "package").get("from"))
    wheel = _table(tool, "hatch", "build", "targets", "wheel")
    yield from _strings(wheel.get("sources"))
    yield from (str(Path(name).parent) for name in _strings(wheel.get("packages")))
    yield from _strings(_table(tool, "pdm", "build").get("package-dir"))
    yield from _strings(_table(tool, "uv", "build-backend").get("module-root"))
    yield from _strings(_table(tool, "pytest", "ini_options").get("pythonpath"))


def _from_ini(path: Path) -> Iterator[str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, configparser.Error):
        return
    for line in parser.get("options", "package_dir", fallback="").splitlines():
        name, _, folder = line.partition("=")
        if not name.strip():
            yield folder.strip()
    yield parser.get("options.packages.find", "where", fallback="").strip()
    for section in ("tool:pytest", "pytest"):
        yield from parser.get(section, "pythonpath", fallback="").split()


def _from_setup(path: Path) -> Iterator[str]:
    """Yield what ``package_dir={"": "src"}`` and ``find_packages("src")`` name; nothing is executed."""
    try:
        tree = parsed(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="package_dir", value=ast.Dict(keys=[ast.Constant(value="")], values=[value])):
                yield from _constant(value)
            case ast.Call(func=ast.Name(id="find_packages" | "find_namespace_packages"), args=[value, *_]):
                yield from _constant(value)
            case ast.keyword(arg="where", value=value):
                yield from _constant(value)
            case _:
                pass


def _constant(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _table(document: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    found: Any = document
    for key in keys:
        found = cast("Mapping[str, Any]", found).get(key) if isinstance(found, Mapping) else None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _strings(value: object) -> list[str]:
    return [value] if isinstance(value, str) else [item for item in _list(value) if isinstance(item, str)]
