"""A worker that is ready before the first dry run: to import torch takes most of that run's time."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

from drygrad.launchers import Profile
from drygrad.lsp.run_settings import settings_of

if TYPE_CHECKING:
    from drygrad.lsp.checking import Checker
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger(__name__)

QUIET_SECONDS = 1.0
"""So long nothing was checked: who opens a file and types on is not to wait for torch."""
FREE_BYTES = 2 << 30
"""A worker takes a quarter of a GiB; where less than this is free, it starts with the first run."""
UNUSED_SECONDS = 900.0
"""A worker that no run has asked for by then ends."""

_IMPORTS_TORCH = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)


class Prewarm:
    """Starts one worker, once, for a trusted file that imports torch."""

    def __init__(self, server: DrygradServer) -> None:
        self._server = server
        self._timer: asyncio.TimerHandle | None = None
        self._done = False
        server.session.listeners.append(self.checked)

    def checked(self, checker: Checker) -> None:
        """Start a worker when the editor is quiet after the check of a file that may be run."""
        if self._done or checker.closed or not self._wants(checker):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._start, checker)

    def _wants(self, checker: Checker) -> bool:
        personal, module = self._server.session.resolve(checker.uri).personal, checker.module
        allowed = personal.trusted and personal.prewarm
        return allowed and module is not None and bool(_IMPORTS_TORCH.search(module.source.text))

    def _start(self, checker: Checker) -> None:
        if self._done or checker.closed or not self._wants(checker):
            return
        free = free_bytes()
        if free is not None and free < FREE_BYTES:
            log.info("no worker is started ahead: %d MiB are free", free >> 20)
            return
        self._done = True
        session = self._server.session
        how = settings_of(session, checker.uri, session.file_of(checker.uri), None, None)
        if isinstance(how.launcher, Profile):
            log.info("no worker is started ahead on another machine: it may be queued, and hold a GPU")
            return
        log.info("starting a worker of %s ahead of the first run", how.interpreter)
        self._server.dry_runs.service.expect(how)
        asyncio.get_running_loop().call_later(UNUSED_SECONDS, self._let_go)

    def _let_go(self) -> None:
        if not self._server.dry_runs.was_asked:
            self._server.spawn(self._server.dry_runs.service.restart(), "ending an unused worker")


def free_bytes() -> int | None:
    """Return how much memory the machine has left; None where that is not told."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeError):
        return None
    told = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return int(told) << 10 if told is not None else None
