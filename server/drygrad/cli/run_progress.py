"""A bar on a terminal that says how many runs have ended, what is run, and what phase it is in."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from .terminal import one_line

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

WORDS = {
    "waiting": "waiting",
    "starting": "starting the worker",
    "backing-off": "the worker died; starting it again",
    "imports": "imports",
    "inputs": "inputs",
    "target": "running",
    "backward": "backward probe",
    "verifying": "trying fixes",
}


class Progress:
    """What is being run, of how many; drawn where there is a bar."""

    def __init__(self, bar: Bar | None = None) -> None:
        self._bar = bar
        self._going: list[str] = []
        self._phase = "waiting"
        self._found: dict[str, int] = {}
        self._total = self._done = 0

    def expect(self, count: int) -> None:
        """Count on more runs."""
        self._total += count
        self._draw()

    def begin(self, target: str) -> None:
        """Hear of a target that is run now."""
        self._going.append(target)
        self._draw()

    def end(self, target: str) -> None:
        """Hear that a target's runs have ended."""
        self._going.remove(target)
        self._found.pop(target, None)
        self._done += 1
        self._draw()

    def found(self, target: str, count: int) -> None:
        """Hear how many findings there are of a target whose experiments go on."""
        self._found[target] = count
        self._draw()

    def phase(self, name: str) -> None:
        """Hear of a phase."""
        self._phase = name
        self._draw()

    def text(self) -> str:
        """Return what is going on, in words."""
        going = self._going[0] if self._going else ""
        more = f" and {len(self._going) - 1} more" if len(self._going) > 1 else ""
        count = sum(self._found.values())
        found = f" ({count} finding{'s' if count > 1 else ''} so far)" if count else ""
        return f"{one_line(going)}{more}  {WORDS.get(self._phase, self._phase)}{found}"

    def _draw(self) -> None:
        if self._bar:
            task = self._bar.task_ids[0]
            self._bar.update(task, total=self._total, completed=self._done, description=self.text())


@contextlib.asynccontextmanager
async def drawing(*, wanted: bool) -> AsyncGenerator[Progress]:
    """Provide a progress that is drawn on stderr, if that is a terminal; the bar goes at the end."""
    if not wanted or not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console  # noqa: PLC0415 - rich takes a tenth of a second
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task("", total=None)
        yield Progress(bar)
