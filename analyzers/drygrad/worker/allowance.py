"""What a run may take for its imports: time of its own, which does not count against that of the call."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

SECONDS = 60.0
"""So long the imports of one run may take, beside its own time."""
IMPORTING = "imports"
"""The phase that says so."""
BEAT = 5.0
"""Seconds after which it is said again that imports are under way, so that nobody takes the run for dead."""


class Imports:
    """A clock that runs while a run imports something."""

    def __init__(self) -> None:
        self._before = self._elsewhere = 0.0
        self._since: float | None = None

    @contextmanager
    def under_way(self) -> Generator[None]:
        """Count the time of the block; a block within another is part of that."""
        if self._since is not None:
            yield
            return
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._before += time.monotonic() - self._since
            self._since = None

    def add(self, seconds: float) -> None:
        """Count what another process has spent on the same imports before, as a search."""
        self._elsewhere += max(0.0, seconds)

    @property
    def are_under_way(self) -> bool:
        """Whether something is being imported now."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        since = self._since
        return self._before + (time.monotonic() - since if since is not None else 0.0)

    @property
    def allowed(self) -> float:
        """How much of that is not the run's own time."""
        return min(SECONDS, self.seconds + self._elsewhere)
