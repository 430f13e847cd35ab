"""``textDocument/inlayHint``: what the last runs saw assigned, and what a forecast says of memory, behind the line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.lsp.observed import Hint, hints
from drygrad.model import Position

if TYPE_CHECKING:
    from drygrad.lsp.forecasted import Forecasted
    from drygrad.lsp.server import DrygradServer


async def inlay_hint(ls: DrygradServer, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    """Return the hints of the lines in a range."""
    uri = params.text_document.uri
    if not ls.session.resolve(uri).personal.inlay_hints:
        return []
    sight = await ls.dry_runs.sight(uri)
    if sight is None:
        return []
    forecasts, path = ls.forecasts.true_of(uri), ls.session.file_of(uri)
    lines, source = sight.lines, sight.part.source
    wanted = lines[params.range.start.line : params.range.end.line + 1]
    found: list[lsp.InlayHint] = []
    for hint in (*hints(sight.view), *_of_forecasts(forecasts, path)):
        if hint.line in wanted:
            line = lines.index(hint.line) + 1
            place = ls.session.units.from_position(source, Position(line, len(source.line_text(line))))
            apart = not hint.label.startswith(":")  # a name is not to touch the code
            kind = lsp.InlayHintKind.Type
            found.append(lsp.InlayHint(place, hint.label, kind, tooltip=hint.tooltip, padding_left=apart))
    return found


def _of_forecasts(forecasts: Sequence[Forecasted], path: Path) -> Iterator[Hint]:
    if forecasts:
        from drygrad.lsp.forecast_words import hints as of_forecasts  # noqa: PLC0415 - a server that starts has no forecasts

        yield from of_forecasts(forecasts, path)


def register(server: DrygradServer) -> None:
    """Register the handler."""
    server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)(inlay_hint)
