"""``textDocument/didOpen``, ``didChange``, ``didSave``, ``didClose``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.lsp.features import configuration
from drygrad.lsp.settings import path_of
from drygrad.static.source import Source

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer


def did_open(ls: DrygradServer, params: lsp.DidOpenTextDocumentParams) -> None:
    """Begin to check a Python text."""
    document = params.text_document
    if document.language_id.startswith("python") or document.uri.endswith((".py", ".pyi")):
        ls.dry_runs.replaced(document.uri, Source(document.text))
        ls.session.open(document.uri)
        configuration.show_problems(ls)


def did_change(ls: DrygradServer, params: lsp.DidChangeTextDocumentParams) -> None:
    """Check the new text when the changes pause."""
    ls.dry_runs.changed(params.text_document.uri)
    ls.session.changed(params.text_document.uri)


def did_save(ls: DrygradServer, params: lsp.DidSaveTextDocumentParams) -> None:
    """Look up again what other files import from this one; run again what is pinned."""
    ls.launches.forget()
    ls.dry_runs.saved(params.text_document.uri)
    path = path_of(params.text_document.uri)
    if path is not None:
        ls.imported_names.changed([path])


def did_close(ls: DrygradServer, params: lsp.DidCloseTextDocumentParams) -> None:
    """Forget a text."""
    ls.session.close(params.text_document.uri)


def register(server: DrygradServer) -> None:
    """Register the handlers."""
    server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)(did_open)
    server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)(did_change)
    server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)(did_save)
    server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)(did_close)
