"""``textDocument/codeLens``: above each target, a dry run and how the last one ended.

Every lens names a command of the server, so that it works in a client that has no code for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.lsp.features.dry_run import CANCEL, DRY_RUN, UNPIN, dry_run_argument
from drygrad.lsp.features.forecast import FORECAST, TELL_FORECAST, forecast_argument
from drygrad.lsp.features.run_results import MENU, TELL
from drygrad.lsp.launches import id_of
from drygrad.lsp.run_words import words_of
from drygrad.lsp.settings import path_of

if TYPE_CHECKING:
    from drygrad.lsp.run_memory import Sight, TargetPlace
    from drygrad.lsp.server import DrygradServer

_FORECAST = "Memory and minimum time on a GPU"


async def code_lens(ls: DrygradServer, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    """Return the lenses of a text that has to do with torch, in a trusted workspace."""
    uri = params.text_document.uri
    personal = ls.session.resolve(uri).personal
    if not (personal.trusted and personal.code_lens):
        return []
    sight = await ls.dry_runs.sight(uri)
    if sight is None or not (sight.view.outcomes or "torch" in sight.view.source.text):
        return []
    memory, loop = ls.dry_runs.memory(uri), asyncio.get_running_loop()
    places = await loop.run_in_executor(ls.session.executor, memory.places, sight.view.source)
    lenses = Lenses(ls, sight, await _launch(ls, uri, places))
    return [lens for place in places for lens in lenses.of(place)]


async def _launch(ls: DrygradServer, uri: str, places: Sequence[TargetPlace]) -> tuple[str, str] | None:
    """Return the launch of the script that is to be offered: its name, and what means it."""
    path = path_of(uri)
    if path is None or all(place.qualname is not None for place in places):
        return None
    project = ls.session.settings.project_of(path)
    launch = await ls.launches.first_of(project, path, ls.session.resolve(uri).personal.launch)
    if launch is None:
        return None
    means = id_of(launch, project)
    return (launch.origin.name if launch.origin else "") or means, means


class Lenses:
    """The lenses of one version of a text: a document, or a cell of a notebook."""

    def __init__(self, server: DrygradServer, sight: Sight, launch: tuple[str, str] | None = None) -> None:
        self._launch = launch
        self._sight, self._uri, self._version = sight, sight.part.uri, sight.part.version
        self._pinned = server.dry_runs.pinned(self._uri)
        self._running = server.dry_runs.running(self._uri)
        self._forecasts = server.forecasts

    def of(self, place: TargetPlace) -> Iterator[lsp.CodeLens]:
        """Yield those of one target."""
        if place.line not in self._sight.lines:
            return
        line = self._sight.lines.index(place.line)
        start = lsp.Position(line, 0)
        for command in self._commands(replace(place, line=line + 1)):
            yield lsp.CodeLens(lsp.Range(start, start), command)

    def _commands(self, place: TargetPlace) -> Iterator[lsp.Command]:
        name = place.qualname
        if (running := self._running.get(name)) is not None:
            run_id, phase = running
            yield lsp.Command(f"◌ {phase}: cancel", CANCEL, arguments=[{"runId": run_id}])
            return
        title, line = ("▶ Dry-run", None) if name is not None else ("▶ Dry-run script", place.line)
        yield lsp.Command(title, DRY_RUN, arguments=[dry_run_argument(self._uri, self._version, name, line)])
        if name is None and self._launch is not None:
            title, launch = self._launch
            argument = dry_run_argument(self._uri, self._version, None, line, launch)
            yield lsp.Command(f"▶ Dry-run with {title}", DRY_RUN, arguments=[argument])
        yield lsp.Command("▶ Forecast", FORECAST, _FORECAST, arguments=[forecast_argument(self._uri, name)])
        outcome, target = self._sight.view.outcomes.get(name), {"uri": self._uri, "qualname": name}
        if outcome is not None:
            yield lsp.Command(self._sight.said(words_of(outcome.seen)), TELL, "Show the result", [target])
        if (made := self._forecasts.present(self._uri, name)) is not None:
            yield lsp.Command(self._sight.said(made.words), TELL_FORECAST, "Show the forecast", [target])
        if name in self._pinned:
            yield lsp.Command("● pinned", UNPIN, "Runs again on every save; click to unpin", arguments=[target])
        more = {**target, "pinned": name in self._pinned}
        yield lsp.Command("⋯", MENU, "More: device, inputs, launch, pin", arguments=[more])


def register(server: DrygradServer) -> None:
    """Register the handler."""
    server.feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions(resolve_provider=False))(code_lens)
