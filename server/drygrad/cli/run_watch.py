"""``drygrad run --watch``: what changes is run again, until Ctrl-C."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from drygrad.dryrun.workspace_imports import imported_files

from .errors import Failure, complain
from .run_files import File
from .run_progress import Progress
from .running import Runner, taken_over

PAUSE = 0.5
"""Seconds between two looks at the files: some hundred of them cost a millisecond. Events of the system would need a
compiled package, and are not told of folders on a network or shared with a container, where people train."""

Stamps = dict[Path, int]


async def watch(
    load: Callable[[], Sequence[File]], runner: Runner, progress: Progress, show: Callable[[Sequence[File]], None]
) -> None:
    """Run the files now, and what has changed of them each time they, or what they import, are saved."""
    files = load()
    while True:
        watched = _watched(files)
        stamps = _stamps(watched)
        await runner.run(files, progress)
        show(files)
        sys.stderr.write("watching; Ctrl-C ends\n")
        changed = await _change(watched, stamps)
        files = _again(load, files, changed)


async def _change(watched: Iterable[Path], before: Stamps) -> frozenset[Path]:
    """Wait until files are saved; return them."""
    while True:
        await asyncio.sleep(PAUSE)
        now = _stamps(watched)
        changed = frozenset(path for path in watched if now.get(path) != before.get(path))
        if changed:
            return changed


def _again(load: Callable[[], Sequence[File]], before: Sequence[File], changed: frozenset[Path]) -> Sequence[File]:
    """Return the files as they are now, with the outcomes that are still true; the old ones while they do not parse."""
    try:
        files = load()
    except Failure as failure:
        complain(str(failure))
        return before
    old = {file.shown: file for file in before}
    for file in files:
        if file.shown in old and not changed & _imports(file):
            taken_over(file, old[file.shown])
    return files


def _watched(files: Sequence[File]) -> frozenset[Path]:
    return frozenset(path for file in files for path in (file.path.absolute(), *_imports(file)))


def _imports(file: File) -> frozenset[Path]:
    return imported_files(file.source, file.path.absolute(), file.project.root.absolute(), {})


def _stamps(paths: Iterable[Path]) -> Stamps:
    """Return when each file was changed last; those that are not there have no time."""
    found: Stamps = {}
    for path in paths:
        try:
            found[path] = path.stat().st_mtime_ns
        except OSError:
            continue
    return found
