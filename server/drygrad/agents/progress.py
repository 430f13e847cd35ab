"""What a call is doing, told to the client while it works."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable

from drygrad.cli.run_progress import Progress

Tell = Callable[[float, float | None, str], Awaitable[None]]
_STEP = 0.001
"""The protocol wants each number to be greater than the last one."""


class Told(Progress):
    """A progress that remembers that there is news; who tells the client takes the newest only."""

    def __init__(self) -> None:
        super().__init__()
        self.news = asyncio.Event()
        self._told = 0.0

    def _draw(self) -> None:
        self.news.set()

    def taken(self) -> tuple[float, float | None, str]:
        """Return how much is done, of how much, and what is going on."""
        self.news.clear()
        self._told = max(self._told + _STEP, float(self._done))
        return self._told, self._total or None, self.text()


@contextlib.asynccontextmanager
async def telling(tell: Tell) -> AsyncGenerator[Progress]:
    """Provide a progress whose news are told as fast as they are taken."""
    progress = Told()

    async def tells() -> None:
        while True:
            await progress.news.wait()
            await tell(*progress.taken())

    task = asyncio.create_task(tells())
    try:
        yield progress
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
