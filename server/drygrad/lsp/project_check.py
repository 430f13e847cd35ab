"""What is found in the files of the workspace on the disk: checked in a process of its own, kept until they change."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lsprotocol import converters
from lsprotocol import types as lsp

from drygrad.children import KILL, send_signal
from drygrad.lsp.convert import result_id
from drygrad.lsp.progress import Progress
from drygrad.lsp.project_request import Folder, Request
from drygrad.lsp.settings import path_of

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger(__name__)

_MOST_BYTES = 64 << 20
"""Of one file's findings."""
_SECONDS_BEFORE_PROGRESS = 1.0
_SECONDS_BETWEEN_REPORTS = 0.2
_QUIET_SECONDS = 0.5
"""So long no file changes before all is checked again."""


@dataclass(frozen=True)
class Checked:
    """What was found in a file as it is on the disk."""

    uri: str
    items: list[lsp.Diagnostic]
    result_id: str


class ProjectCheck:
    """Checks the workspace when it is asked, if anything has changed since."""

    def __init__(self, server: DrygradServer) -> None:
        self._server = server
        self.known: dict[str, Checked] = {}
        self._converter: Any = converters.get_converter()
        self._changes = 0
        self._checked = -1
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        server.at_exit.append(self._kill)

    def of(self, uri: str) -> Checked | None:
        """Return what was found in a file; None where nothing is known of it."""
        return self.known.get(unquote(uri))

    def plain(self, value: object) -> object:
        """Return what the protocol's types say as plain data."""
        return self._converter.unstructure(value)

    def changed(self) -> None:
        """Note that files or settings are not what they were."""
        self._changes += 1
        self.wake()

    def wake(self) -> None:
        """Have those who wait for news look again."""
        self._news.set()

    async def news(self) -> None:
        """Wait until there may be something new, and the changes pause."""
        await self._news.wait()
        while self._news.is_set():
            self._news.clear()
            await asyncio.sleep(_QUIET_SECONDS)

    async def fresh(self, tell: Callable[[Checked], None]) -> None:
        """Check all files unless nothing has changed; ``tell`` hears of each as it is done."""
        async with self._turn:
            if self._checked == self._changes:
                return
            changes = self._changes
            self._news.clear()
            if not self._server.session.capabilities.watches_files:
                changes -= 1  # nobody tells of changes: next time, all may be different
            before = self.known
            self.known = {**before}
            seen: set[str] = set()

            def hear(checked: Checked) -> None:
                seen.add(unquote(checked.uri))
                self.known[unquote(checked.uri)] = checked
                tell(checked)

            if await self._run(hear):
                self.known = {uri: checked for uri, checked in self.known.items() if uri in seen}
            self._checked = changes

    async def _run(self, hear: Callable[[Checked], None]) -> bool:
        """Have a process check all; say whether it came to the end of it."""
        process = self._process = await asyncio.create_subprocess_exec(
            *_command(), stdin=PIPE, stdout=PIPE, limit=_MOST_BYTES, cwd=Path(sys.executable).parent
        )
        progress = _LateProgress(self._server, self._kill)
        try:
            assert process.stdin is not None
            process.stdin.write(self._request().written().encode("utf-8", "surrogatepass") + b"\n")
            done = total = 0
            while told := await _told(process):
                total = told.get("total", total)
                if "uri" in told:
                    items: list[lsp.Diagnostic] = self._converter.structure(told["items"], list[lsp.Diagnostic])
                    hear(Checked(told["uri"], items, result_id(items)))
                    done += 1
                    progress.report(done, total)
            return await process.wait() == 0
        finally:
            progress.close()
            self._kill()

    def _request(self) -> Request:
        server = self._server
        paths = [path for folder in server.documents.folders.values() if (path := path_of(folder.uri))]
        folders = tuple(Folder(str(path), *server.session.settings.for_folder(path)) for path in paths)
        return Request(folders, str(server.documents.position_encoding), server.session.capabilities)

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(OSError):
                send_signal(self._process, KILL)


class _LateProgress:
    """A bar that is shown when the check has taken so long that one wonders."""

    def __init__(self, server: DrygradServer, on_cancel: Callable[[], None]) -> None:
        self._shown: Progress | None = None
        self._said = 0.0
        self._make = lambda: Progress(server, "drygrad: checking the workspace", on_cancel, measured=True)
        self._timer = asyncio.get_running_loop().call_later(_SECONDS_BEFORE_PROGRESS, self._show)

    def _show(self) -> None:
        self._shown = self._make()

    def report(self, done: int, total: int) -> None:
        if self._shown is not None and time.monotonic() - self._said > _SECONDS_BETWEEN_REPORTS:
            self._said = time.monotonic()
            self._shown.report(f"{done}/{total}", 100 * done // max(total, 1))

    def close(self) -> None:
        self._timer.cancel()
        if self._shown is not None:
            self._shown.close()


async def _told(process: Process) -> dict[str, Any] | None:
    """Return the next of what a process tells; None where it has ended, or is not understood."""
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        return json.loads(line) if line else None
    except (OSError, ValueError) as error:
        log.warning("the check of the workspace ended early: %s", error)
        return None


def _command() -> list[str]:
    """Return the command line of the process: this interpreter with the server's own search path, and nothing else."""
    program = f"import sys; sys.path[:] = {sys.path!r}; from drygrad.lsp.project_process import main; main()"
    return [sys.executable, "-I", "-S", "-c", program]
