"""``textDocument/hover``: what runs have observed, what a finding means, and what a suppression silences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.documentation import hover_of
from drygrad.lsp.markdown import with_code
from drygrad.lsp.observed import facts_at
from drygrad.model import Position, Span

if TYPE_CHECKING:
    from drygrad.lsp.checking import Shown
    from drygrad.lsp.server import DrygradServer

_SUPPRESSION = re.compile(r"#[^#]*?(?:drygrad:\s*ignore(?:-file)?\[|noqa\s*:)(?P<codes>[^\]#]*)", re.IGNORECASE)
_CODE = re.compile(r"DG\d+", re.IGNORECASE)


async def hover(ls: DrygradServer, params: lsp.HoverParams) -> lsp.Hover | None:
    """Return what is known of a position, and the documentation of its rules."""
    session = ls.session
    shown = session.shown(params.text_document.uri)
    if shown is None:
        return None
    source = shown.part.source
    position = session.units.to_position(source, params.position)
    places = list(_of_findings(shown, position)) or list(_of_suppression(source.line_text(position.line), position))
    markdown = session.capabilities.markdown
    codes = dict.fromkeys(code for _, code in places)
    whole = session.resolve(params.text_document.uri).personal.hover == "page"
    pages = (hover_of(code, markdown=markdown, whole=whole) for code in codes)
    texts = [*_observed(ls, shown, position), *filter(None, pages)]
    if not texts:
        return None
    kind = lsp.MarkupKind.Markdown if markdown else lsp.MarkupKind.PlainText
    content = lsp.MarkupContent(kind, "\n\n---\n\n".join(texts))
    return lsp.Hover(content, session.units.from_span(source, places[0][0]) if places else None)


def _observed(ls: DrygradServer, shown: Shown, position: Position) -> Iterator[str]:
    uri = shown.part.uri
    memory, checker = ls.dry_runs.memory(uri), ls.session.checker_of(uri)
    sight = ls.dry_runs.seen_of(checker, uri) if checker else None
    if sight is None:
        return
    source, forecasts = sight.view.source, ls.forecasts.memory(uri)
    places = memory.known_places(source) or forecasts.known_places(source)
    targets = {place.line: place.qualname for place in places}
    place = Position(sight.lines[position.line - 1], position.column)
    markdown = ls.session.capabilities.markdown
    facts = [fact.said(sight.said).text(markdown=markdown) for fact in facts_at(sight.view, place, targets)]
    told = map(sight.said, _of_forecasts(ls, uri, place.line, targets))
    facts += [with_code(sentence) if markdown else sentence for sentence in told]
    if facts:
        yield "\n".join(f"- {fact}" for fact in facts)


def _of_forecasts(ls: DrygradServer, uri: str, line: int, targets: Mapping[int, str | None]) -> Iterator[str]:
    """Yield what forecasts say of a line, and of the target that is named there."""
    true = ls.forecasts.true_of(uri)
    made = ls.forecasts.present(uri, targets[line]) if line in targets else None
    if made is None and not true:
        return
    from drygrad.lsp.forecast_words import of_line, of_target  # noqa: PLC0415 - a server that starts has no forecasts

    path = ls.session.file_of(uri)
    if made is not None:
        yield from of_target(made)
    for made in true[-1:]:
        yield from of_line(made, path, line)


def _of_findings(shown: Shown, position: Position) -> Iterator[tuple[Span, str]]:
    """Yield the codes of the findings at a position; their messages every editor shows by itself."""
    for finding in shown.findings:
        if finding.span.start <= position <= finding.span.end:
            yield finding.span, finding.code


def _of_suppression(line: str, position: Position) -> Iterator[tuple[Span, str]]:
    for comment in _SUPPRESSION.finditer(line):
        for code in _CODE.finditer(line, comment.start("codes"), comment.end("codes")):
            if code.start() <= position.column <= code.end():
                yield Span.of(position.line, code.start(), position.line, code.end()), code.group()


def register(server: DrygradServer) -> None:
    """Register the handler."""
    server.feature(lsp.TEXT_DOCUMENT_HOVER)(hover)
