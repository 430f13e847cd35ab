"""Memory is given back while nobody waits."""

from __future__ import annotations

import asyncio
import gc

QUIET_SECONDS = 2.0


class Tidying:
    """Collects garbage when no result has been new for some seconds.

    A syntax tree and what is known of it are full of cycles, and the collector's thresholds are high, so that it does
    not interrupt the checks: what edits and runs leave would otherwise pile up for hours.
    """

    def __init__(self, seconds: float = QUIET_SECONDS) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def checked(self, _: object) -> None:
        """Begin to wait, again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, gc.collect)
