"""Looks for the files of the workspace that call a target: its tests, scripts that import it."""

from __future__ import annotations

import os
from pathlib import Path

from drygrad.dryrun.inputs.callers import Caller
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.plan import RunOptions
from drygrad.dryrun.targets import Target
from drygrad.interpreters import Interpreter, site_packages
from drygrad.static.lookup.client import Limits, LookupClient, Place
from drygrad.static.lookup.users import User
from drygrad.static.source import Source, SourceError, read

SECONDS = 2.0
"""How long a look-up may take; what is not found by then is done without."""


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
        self._client = self._client or LookupClient(Limits(timeout=SECONDS))
        place = Place(path, root, site_packages(Interpreter(interpreter, "")))
        users = await self._client.users(place, target.qualname.partition(".")[0])
        return await in_turn(_callers, users, root, options)

    async def close(self) -> None:
        """End the helper process."""
        if self._client is not None:
            await self._client.close()
            self._client = None


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
