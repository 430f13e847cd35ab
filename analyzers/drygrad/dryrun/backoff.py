"""How long to wait before a process that died is started again, and when to give up."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable


class Backoff:
    """Doubles the pause after each death; after more than ``limit`` deaths within ``window`` seconds there is none."""

    def __init__(
        self,
        limit: int = 4,
        window: float = 120.0,
        first: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self.window = window
        self._first = first
        self._clock = clock
        self._deaths: deque[float] = deque()

    def pause(self) -> float | None:
        """Count a death; return the seconds to wait before the next start, or None to give up."""
        now = self._clock()
        self._deaths.append(now)
        while now - self._deaths[0] > self.window:
            self._deaths.popleft()
        if len(self._deaths) > self.limit:
            return None
        return self._first * 2 ** (len(self._deaths) - 1)

    def forget(self) -> None:
        """Begin anew."""
        self._deaths.clear()
