"""One line on a terminal that says what the run is doing, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncGenerator

WORDS = {
    "waiting": "waiting",
    "starting": "starting the worker",
    "backing-off": "the worker died; starting it again",
    "imports": "imports",
    "inputs": "inputs",
    "target": "running",
    "backward": "backward probe",
}
_TICK = 0.1
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """What is being run, and its phase; drawn by ``drawing``."""

    def __init__(self) -> None:
        self._target = ""
        self._phase = ""
        self._since = time.monotonic()

    def begin(self, target: str) -> None:
        """Speak of another target from now on."""
        self._target, self._phase, self._since = target, "waiting", time.monotonic()

    def phase(self, name: str) -> None:
        """Hear of a phase."""
        self._phase = name

    def text(self) -> str:
        """Return the line as it is now."""
        elapsed = time.monotonic() - self._since
        return f"{self._target}  {WORDS.get(self._phase, self._phase)}  {elapsed:.1f} s"


@contextlib.asynccontextmanager
async def drawing(line: ProgressLine, *, wanted: bool) -> AsyncGenerator[None]:
    """Draw the line on stderr again and again, if that is a terminal; wipe it at the end."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    task = asyncio.create_task(_draw(line))
    try:
        yield
    finally:
        task.cancel()
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


async def _draw(line: ProgressLine) -> None:
    while True:
        sys.stderr.write(_CLEAR + line.text())
        sys.stderr.flush()
        await asyncio.sleep(_TICK)
