"""``textDocument/hover``: what a finding means, and what a suppression silences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.documentation import markdown_of
from drygrad.model import Position, Span

if TYPE_CHECKING:
    from drygrad.lsp.checking import Shown
    from drygrad.lsp.server import DrygradServer

_SUPPRESSION = re.compile(r"#[^#]*?(?:drygrad:\s*ignore(?:-file)?\[|noqa\s*:)(?P<codes>[^\]#]*)", re.IGNORECASE)
_CODE = re.compile(r"DG\d+", re.IGNORECASE)


async def hover(ls: DrygradServer, params: lsp.HoverParams) -> lsp.Hover | None:
    """Return the documentation of the rules at a position."""
    session = ls.session
    shown = session.shown(params.text_document.uri)
    if shown is None:
        return None
    source = shown.part.source
    position = session.units.to_position(source, params.position)
    texts = list(_of_findings(shown, position)) or list(_of_suppression(source.line_text(position.line), position))
    if not texts:
        return None
    spans = [span for span, _ in texts]
    kind = lsp.MarkupKind.Markdown if session.capabilities.markdown else lsp.MarkupKind.PlainText
    content = lsp.MarkupContent(kind, "\n\n---\n\n".join(text for _, text in texts))
    return lsp.Hover(content, session.units.from_span(source, spans[0]))


def _of_findings(shown: Shown, position: Position) -> Iterator[tuple[Span, str]]:
    for finding in shown.findings:
        if finding.span.start <= position <= finding.span.end:
            documentation = markdown_of(finding.code) or f"# {finding.code}: {finding.name}"
            yield finding.span, f"{finding.message}\n\n{documentation}"


def _of_suppression(line: str, position: Position) -> Iterator[tuple[Span, str]]:
    for comment in _SUPPRESSION.finditer(line):
        for code in _CODE.finditer(line, comment.start("codes"), comment.end("codes")):
            if code.start() <= position.column <= code.end() and (text := markdown_of(code.group())):
                yield Span.of(position.line, code.start(), position.line, code.end()), text


def register(server: DrygradServer) -> None:
    """Register the handler."""
    server.feature(lsp.TEXT_DOCUMENT_HOVER)(hover)
