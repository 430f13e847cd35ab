"""``textDocument/inlayHint``: what the last runs saw assigned, behind the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.lsp.observed import hints
from drygrad.model import Position

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer


async def inlay_hint(ls: DrygradServer, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    """Return the hints of the lines in a range."""
    uri = params.text_document.uri
    if not ls.session.resolve(uri).personal.inlay_hints:
        return []
    sight = await ls.dry_runs.sight(uri)
    if sight is None:
        return []
    lines, source = sight.lines, sight.part.source
    wanted = lines[params.range.start.line : params.range.end.line + 1]
    found: list[lsp.InlayHint] = []
    for hint in hints(sight.view):
        if hint.line in wanted:
            line = lines.index(hint.line) + 1
            place = ls.session.units.from_position(source, Position(line, len(source.line_text(line))))
            apart = not hint.label.startswith(":")  # a name is not to touch the code
            kind = lsp.InlayHintKind.Type
            found.append(lsp.InlayHint(place, hint.label, kind, tooltip=hint.tooltip, padding_left=apart))
    return found


def register(server: DrygradServer) -> None:
    """Register the handler."""
    server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)(inlay_hint)
