"""Progress in the client's window, which always ends."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable
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


@asynccontextmanager
async def progress(server: DrygradServer, title: str) -> AsyncGenerator[Report, None]:
    """Show progress while the block runs, if the client can."""
    token = f"drygrad-{uuid.uuid4()}"
    if not (server.session.capabilities.progress and await _created(server, token)):
        yield lambda done, total: None
        return
    shown: Any = server.work_done_progress
    shown.begin(token, lsp.WorkDoneProgressBegin(title=title, cancellable=False, percentage=0))

    def report(done: int, total: int) -> None:
        value = lsp.WorkDoneProgressReport(message=f"{done}/{total}", percentage=100 * done // max(total, 1))
        shown.report(token, value)

    try:
        yield report
    finally:
        shown.end(token, lsp.WorkDoneProgressEnd())
        shown.tokens.pop(token, None)  # pygls keeps them for ever


async def _created(server: DrygradServer, token: str) -> bool:
    shown: Any = server.work_done_progress
    try:
        await asyncio.wait_for(shown.create_async(token), _ANSWER_SECONDS)
    except (JsonRpcException, TimeoutError, asyncio.TimeoutError) as error:
        log.info("the client shows no progress: %r", error)
        return False
    return True
