"""The client is asked for lenses and hints once for what changes together, and for lenses alone while a run goes on."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from drygrad.lsp.capabilities import Capabilities
from drygrad.lsp.refreshing import Refreshing


class Asked:
    """A server that notes what the client is asked."""

    def __init__(self) -> None:
        self.session = self
        self.capabilities = Capabilities(refreshes_lenses=True, refreshes_hints=True)
        self.lenses, self.hints = 0, 0
        self.news = asyncio.Event()

    def workspace_code_lens_refresh(self, _: None) -> None:
        self.lenses += 1
        self.news.set()

    def workspace_inlay_hint_refresh(self, _: None) -> None:
        self.hints += 1


def test_what_changes_together_is_asked_for_once() -> None:
    async def told() -> tuple[int, int]:
        server = Asked()
        refreshing = Refreshing(cast("Any", server))
        for tell in (refreshing.phases, refreshing.results, refreshing.phases, refreshing.results):
            tell()
        await server.news.wait()
        return server.lenses, server.hints

    assert asyncio.run(told()) == (1, 1)


def test_a_phase_asks_for_no_hints() -> None:
    async def told() -> tuple[int, int]:
        server = Asked()
        refreshing = Refreshing(cast("Any", server))
        for _ in range(3):
            refreshing.phases()
        await server.news.wait()
        return server.lenses, server.hints

    assert asyncio.run(told()) == (1, 0)
