"""Where a worker is sent to: what its start is asked for, and what is known once it is there."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drygrad.dryrun.remote.mirror import Mirror
from drygrad.dryrun.remote.packing import LOADER, packed
from drygrad.dryrun.remote.paths import Paths
from drygrad.launchers import Profile


@dataclass(frozen=True)
class Destination:
    """A profile, and the project that is run there; ``mark`` is what tells our output from what came before it."""

    profile: Profile
    root: Path
    own_python: str
    mark: str = field(default_factory=lambda: f"drygrad-{secrets.token_hex(8)}")

    @property
    def command(self) -> list[str]:
        """What is started here."""
        return self.profile.words(["-I", "-S", "-c", LOADER, self.mark], self.own_python)

    @property
    def shown(self) -> str:
        """What is started, in words."""
        profile = self.profile
        return f"{profile.python or profile.engine.python or self.own_python} through `{profile.shown}`"

    @property
    def order(self) -> dict[str, Any]:
        """What is said to the other side first."""
        worker = packed()
        order = {"digest": worker.digest, "size": len(worker.data), "name": self.root.name}
        return order if self.profile.sends_files else {**order, "root": Paths(self.profile.paths).there(str(self.root))}


class Far:
    """A project as it is on the other side: what the messages that go there and come back have to do with it."""

    def __init__(self, destination: Destination, root: str) -> None:
        self._mirror = Mirror(destination.root) if destination.profile.sends_files else None
        self._paths = Paths((*destination.profile.paths, (str(destination.root), root)))
        self._turn = asyncio.Lock()

    async def changes(self) -> dict[str, Any] | None:
        """Return the message that brings the project's files there up to date; None where there is none to send."""
        if self._mirror is None:
            return None
        async with self._turn:
            return await asyncio.to_thread(self._mirror.changes)

    def request(self, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a plan with the paths of the other side."""
        return self._paths.plan_there(plan)

    def answer(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is answered with our paths."""
        return self._paths.answer_here(dict(value))

    @property
    def note(self) -> str | None:
        """What a run there did without."""
        left = self._mirror.left if self._mirror else 0
        return f"{left} files of the project were not sent to the other machine: there are too many" if left else None
