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
    view = await ls.dry_runs.view(uri)
    if view is None:
        return []
    first, last = params.range.start.line + 1, params.range.end.line + 1
    found: list[lsp.InlayHint] = []
    for hint in hints(view):
        if first <= hint.line <= last:
            end = Position(hint.line, len(view.source.line_text(hint.line)))
            place = ls.session.units.from_position(view.source, end)
            found.append(lsp.InlayHint(place, hint.label, lsp.InlayHintKind.Type, tooltip=hint.tooltip))
    return found


def register(server: DrygradServer) -> None:
    """Register the handler."""
    server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)(inlay_hint)
