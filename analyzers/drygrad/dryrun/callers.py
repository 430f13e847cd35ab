"""Looks for files of the workspace that call a target: its tests, scripts that import it, programs that come to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from drygrad.dryrun.inputs.callers import Caller
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.launches.finding import Found, find
from drygrad.dryrun.plan import RunOptions
from drygrad.dryrun.program import Program
from drygrad.dryrun.targets import Target, is_program
from drygrad.interpreters import Interpreter, site_packages
from drygrad.static.lookup.client import Limits, LookupClient, Place
from drygrad.static.lookup.dependents import Dependent
from drygrad.static.lookup.users import User
from drygrad.static.source import Source, SourceError, read

SECONDS = 2.0
"""How long a look-up may take; what is not found by then is done without."""
_KINDS = ("script", "module", "function")
_MOST_LAUNCHES = 2
MOST_PROGRAMS = 4
"""So many programs are run one after the other, until one comes to the target."""


class Callers:
    """Asks the helper process of the look-ups, which starts with the first question."""

    def __init__(self) -> None:
        self._client: LookupClient | None = None

    async def of(
        self, path: Path, target: Target, root: Path, interpreter: Path, options: RunOptions
    ) -> tuple[Caller, ...]:
        """Return the callers of a target, the likeliest first; their unsaved texts count before those on the disk."""
        if target.qualname is None:
            return ()
        users = await self._asked().users(*_question(path, target, root, interpreter))
        return await in_turn(_callers, users, root, options)

    async def programs_of(
        self, path: Path, target: Target, root: Path, interpreter: Path, options: RunOptions
    ) -> tuple[Program, ...]:
        """Return the programs that come to a target, directly or not, the likeliest first."""
        if target.function is None or target.is_special:
            return ()
        place, _ = _question(path, target, root, interpreter)
        found = await self._asked().dependents(place, str(target.qualname))
        return await in_turn(_programs, found, root, options, place.interpreter_paths)

    def _asked(self) -> LookupClient:
        self._client = self._client or LookupClient(Limits(timeout=SECONDS))
        return self._client

    async def close(self) -> None:
        """End the helper process."""
        if self._client is not None:
            await self._client.close()
            self._client = None


def _question(path: Path, target: Target, root: Path, interpreter: Path) -> tuple[Place, str]:
    place = Place(path, root, site_packages(Interpreter(interpreter, "")))
    return place, str(target.qualname).partition(".")[0]


def _programs(found: list[Dependent], root: Path, options: RunOptions, installed: Sequence[str]) -> tuple[Program, ...]:
    """Return how the programs are started: as the project starts them, else without arguments; tests by ``pytest``."""
    launches = find(root) if found else Found()
    has_pytest = any(Path(folder, "pytest").is_dir() for folder in installed)
    programs: list[Program] = []
    for one in found:
        source = _source(one.path, options)
        known = [each for each in launches.of(one.path) if each.kind in _KINDS]
        if source is None or not (one.tests or known or is_program(source)):
            continue
        shown = _shown(one.path, root)
        if one.tests:
            programs += [Program.tests(one.path, shown, source, one.tests, root)] if has_pytest else []
            continue
        programs += [Program(each, shown, source) for each in known[:_MOST_LAUNCHES]]
        programs += [] if known else [Program.plain(one.path, shown, source)]
    return tuple(programs[:MOST_PROGRAMS])


def program_of(options: RunOptions, root: Path) -> tuple[Program, ...]:
    """Return the program that a run is started by, if it is one that may come to other targets, too."""
    launch = options.launch
    source = _source(launch.file, options) if launch is not None and launch.kind in _KINDS else None
    return (Program(launch, _shown(launch.file, root), source),) if launch is not None and source is not None else ()


def _callers(users: list[User], root: Path, options: RunOptions) -> tuple[Caller, ...]:
    texts = ((user, _source(user.path, options)) for user in users)
    return tuple(Caller(u.path, _shown(u.path, root), s, u.names, u.module) for u, s in texts if s is not None)


def _source(path: Path, options: RunOptions) -> Source | None:
    if str(path) in options.buffers:
        return Source(options.buffers[str(path)])
    try:
        return read(path)
    except (OSError, SourceError):
        return None


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else os.fspath(path)
