"""Which files of the workspace a file imports, directly or through others."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from drygrad.static.lookup.modules import Module, Modules, module_at
from drygrad.static.source import Source, SourceError, read

MAX_FILES = 500
"""A dry run that depends on more is not followed further."""


def imported_files(source: Source, path: Path, root: Path, buffers: Mapping[Path, str]) -> frozenset[Path]:
    """Return the imported files below a root; ``buffers`` are texts that count before those on the disk."""
    modules = Modules(root)
    found: set[Path] = set()
    waiting = [(path, source)]
    while waiting and len(found) < MAX_FILES:
        origin, text = waiting.pop()
        for file in _imports_of(modules, origin, text):
            if file != path and file not in found and file.suffix == ".py" and file.is_relative_to(root):
                found.add(file)
                if (imported := _source(file, buffers)) is not None:
                    waiting.append((file, imported))
    return frozenset(found)


def _source(path: Path, buffers: Mapping[Path, str]) -> Source | None:
    if path in buffers:
        return Source(buffers[path])
    try:
        return read(path)
    except (OSError, SourceError):
        return None


def _imports_of(modules: Modules, origin: Path, source: Source) -> Iterator[Path]:
    try:
        tree = source.parse()
    except SourceError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for top, *names in (alias.name.split(".") for alias in node.names):
                yield from _files(modules, modules.find(top, origin), names)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(modules, origin, node)


def _from(modules: Modules, origin: Path, node: ast.ImportFrom) -> Iterator[Path]:
    names = node.module.split(".") if node.module else []
    if node.level:
        start = _package(origin, node.level)
    else:
        start, names = modules.find(names[0], origin), names[1:]
    for alias in node.names:
        yield from _files(modules, start, [*names, alias.name])


def _package(origin: Path, level: int) -> Module | None:
    package = module_at(origin).package
    for _ in range(level - 1):
        package = package.parent if package else None
    return package


def _files(modules: Modules, module: Module | None, names: list[str]) -> Iterator[Path]:
    """Yield the files on the way through a package to a submodule; a last name may be no module, but in one."""
    while module is not None:
        if module.path is not None:
            yield module.path
        if not names:
            return
        module, names = modules.submodule(module, names[0]), names[1:]
