"""The clients' texts, kept as the protocol says: lines end at CRLF, LF or CR and nowhere else."""

from __future__ import annotations

import logging
from urllib.parse import unquote

from lsprotocol import types as lsp
from pygls.workspace import TextDocument, Workspace

from drygrad.lsp.base.units import Units
from drygrad.static.source import Source

log = logging.getLogger(__name__)


class Document(TextDocument):
    """An open text.

    pygls splits lines as ``str.splitlines`` does, also at form feeds and U+2028; below one of them every incremental
    edit would land on a wrong line.
    """

    _snapshot: Source | None = None

    @property
    def snapshot(self) -> Source:
        """The text of the present version."""
        text = self.source
        if self._snapshot is None or self._snapshot.text is not text:
            self._snapshot = Source(text)
        return self._snapshot

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines with their line ends."""
        return tuple(self.snapshot.lines)

    def _apply_incremental_change(self, change: lsp.TextDocumentContentChangePartial) -> None:
        units = Units(str(self.position_codec.encoding))
        source = self.snapshot
        start = units.to_offset(source, change.range.start)
        end = max(units.to_offset(source, change.range.end), start)
        self._source = source.text[:start] + change.text + source.text[end:]


class Documents(Workspace):
    """A workspace of ``Document``s."""

    def _create_text_document(
        self, doc_uri: str, source: str | None = None, version: int | None = None, language_id: str | None = None
    ) -> Document:
        return Document(doc_uri, source or "", version, language_id, True, self._sync_kind, self._position_codec)

    def find(self, uri: str) -> Document | None:
        """Return an open document; None if the client has not opened it."""
        document = self._text_documents.get(unquote(uri))
        return document if isinstance(document, Document) else None

    def update_text_document(
        self, text_doc: lsp.VersionedTextDocumentIdentifier, change: lsp.TextDocumentContentChangeEvent
    ) -> None:
        """Apply one change; a change of a text that is not open is a fault of the client, and passed over."""
        if self.find(text_doc.uri) is None:
            log.warning("a change of %s, which is not open", text_doc.uri)
            return
        super().update_text_document(text_doc, change)
