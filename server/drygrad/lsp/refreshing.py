"""Asks the client to ask for lenses and hints again: soon, and once for what changes together.

Every such request has the client ask for all of them and draw them anew, which it does instead of showing a result.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

_TOGETHER_SECONDS = 0.01
_PHASE_SECONDS = 0.2
"""A run that is over by then shows its result, and no phase before."""


class Refreshing:
    """What the client is going to be asked."""

    def __init__(self, server: DrygradServer) -> None:
        self._server = server
        self._timer: asyncio.TimerHandle | None = None
        self._hints = False

    def results(self) -> None:
        """Have results shown: lenses and hints."""
        self._hints = True
        self._ask_in(_TOGETHER_SECONDS)

    def phases(self) -> None:
        """Have what is done now shown in the lenses, if it goes on."""
        self._ask_in(_PHASE_SECONDS)

    def _ask_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._ask)

    def _ask(self) -> None:
        hints, self._hints, self._timer = self._hints, False, None
        able = self._server.session.capabilities
        if able.refreshes_lenses:
            self._server.workspace_code_lens_refresh(None)
        if hints and able.refreshes_hints:
            self._server.workspace_inlay_hint_refresh(None)
