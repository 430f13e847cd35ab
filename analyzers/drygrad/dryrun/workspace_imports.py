"""Which files of the workspace a file imports, directly or through others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from drygrad.static.lookup.imports import files_imported
from drygrad.static.lookup.modules import Modules
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
    yield from files_imported(modules, origin, tree)
