"""Progress in the client's window, which always ends, and which the user can end."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger(__name__)

_ANSWER_SECONDS = 5.0

Report: TypeAlias = Callable[[int, int], None]
"""Tells how many of how many are done."""


class Progress:
    """What one piece of work shows. The work does not wait until the client has made room for it.

    ``on_cancel`` is called, once, when the user presses the button; without it there is none. What is ``measured``
    reports percentages.
    """

    def __init__(
        self,
        server: DrygradServer,
        title: str,
        on_cancel: Callable[[], None] | None = None,
        *,
        measured: bool = False,
    ) -> None:
        self._shown: Any = server.work_done_progress
        self._title = title
        self._on_cancel = on_cancel
        self._measured = measured
        self._token = f"drygrad-{uuid.uuid4()}"
        self._waiting: list[lsp.WorkDoneProgressReport] = []
        self._begun = self._closed = False
        if server.session.capabilities.progress:
            server.spawn(self._open(), "showing progress")

    def report(self, message: str, percentage: int | None = None) -> None:
        """Say what is done now."""
        value = lsp.WorkDoneProgressReport(message=message, percentage=percentage)
        if self._begun:
            self._shown.report(self._token, value)
        else:
            self._waiting.append(value)

    def close(self) -> None:
        """End it."""
        self._closed = True
        if self._begun:
            self._end()

    async def _open(self) -> None:
        if not await self._created():
            return
        button: Future[Any] = self._shown.tokens[self._token]
        button.add_done_callback(self._pressed)
        can_cancel, percentage = self._on_cancel is not None, 0 if self._measured else None
        begin = lsp.WorkDoneProgressBegin(self._title, cancellable=can_cancel, percentage=percentage)
        self._shown.begin(self._token, begin)
        self._begun = True
        for value in self._waiting:
            self._shown.report(self._token, value)
        if self._closed:
            self._end()

    def _pressed(self, button: Future[Any]) -> None:
        if button.cancelled() and self._on_cancel is not None and not self._closed:
            self._on_cancel()

    def _end(self) -> None:
        self._shown.end(self._token, lsp.WorkDoneProgressEnd())
        self._shown.tokens.pop(self._token, None)  # pygls keeps them for ever

    async def _created(self) -> bool:
        try:
            await asyncio.wait_for(self._shown.create_async(self._token), _ANSWER_SECONDS)
        except (JsonRpcException, TimeoutError, asyncio.TimeoutError) as error:
            log.info("the client shows no progress: %r", error)
            return False
        return True


@asynccontextmanager
async def progress(server: DrygradServer, title: str) -> AsyncGenerator[Report, None]:
    """Show how much is done while the block runs, if the client can."""
    shown = Progress(server, title, measured=True)

    def report(done: int, total: int) -> None:
        shown.report(f"{done}/{total}", 100 * done // max(total, 1))

    try:
        yield report
    finally:
        shown.close()
