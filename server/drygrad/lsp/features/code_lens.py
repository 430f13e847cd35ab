"""``textDocument/codeLens``: above each target, a dry run and how the last one ended.

Every lens names a command of the server or none, so that it works in a client that has no code for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.lsp.features.dry_run import CANCEL, DRY_RUN, PIN, UNPIN, dry_run_argument
from drygrad.lsp.run_words import words_of

if TYPE_CHECKING:
    from drygrad.lsp.run_memory import TargetPlace, View
    from drygrad.lsp.server import DrygradServer


async def code_lens(ls: DrygradServer, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    """Return the lenses of a text that has to do with torch, in a trusted workspace."""
    uri = params.text_document.uri
    personal = ls.session.resolve(uri).personal
    if not (personal.trusted and personal.code_lens):
        return []
    view = await ls.dry_runs.view(uri)
    if view is None or not (view.outcomes or "torch" in view.source.text):
        return []
    memory, loop = ls.dry_runs.memory(uri), asyncio.get_running_loop()
    places = await loop.run_in_executor(ls.session.executor, memory.places, view.source)
    lenses = Lenses(ls, uri, view)
    return [lens for place in places for lens in lenses.of(place)]


class Lenses:
    """The lenses of one version of a text."""

    def __init__(self, server: DrygradServer, uri: str, view: View) -> None:
        self._uri, self._view = uri, view
        self._version = server.session.version_of(uri)
        self._pinned = server.dry_runs.pinned(uri)
        self._running = server.dry_runs.running(uri)

    def of(self, place: TargetPlace) -> Iterator[lsp.CodeLens]:
        """Yield those of one target."""
        start = lsp.Position(place.line - 1, 0)
        for command in self._commands(place):
            yield lsp.CodeLens(lsp.Range(start, start), command)

    def _commands(self, place: TargetPlace) -> Iterator[lsp.Command]:
        name = place.qualname
        if (run_id := self._running.get(name)) is not None:
            yield lsp.Command("◌ running: cancel", CANCEL, arguments=[{"runId": run_id}])
            return
        title, line = ("▶ Dry-run", None) if name is not None else ("▶ Dry-run script", place.line)
        yield lsp.Command(title, DRY_RUN, arguments=[dry_run_argument(self._uri, self._version, name, line)])
        outcome = self._view.outcomes.get(name)
        if outcome is not None:
            yield lsp.Command(words_of(outcome.seen), "")
        target = {"uri": self._uri, "qualname": name}
        if name in self._pinned:
            yield lsp.Command("● pinned", UNPIN, "Runs again at each save; click to unpin", arguments=[target])
        elif outcome is not None:
            yield lsp.Command("○ pin", PIN, "Run again at each save", arguments=[target])


def register(server: DrygradServer) -> None:
    """Register the handler."""
    server.feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions(resolve_provider=False))(code_lens)
