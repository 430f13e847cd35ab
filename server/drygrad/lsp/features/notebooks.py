"""``notebookDocument/didOpen``, ``didChange``, ``didSave``, ``didClose``: the cells of a notebook are one module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.lsp.features import configuration

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer


def did_open(ls: DrygradServer, params: lsp.DidOpenNotebookDocumentParams) -> None:
    """Begin to check a notebook."""
    ls.session.open(params.notebook_document.uri)
    configuration.show_problems(ls)


def did_change(ls: DrygradServer, params: lsp.DidChangeNotebookDocumentParams) -> None:
    """Check the notebook when its changes pause."""
    ls.session.changed(params.notebook_document.uri)


def did_save(ls: DrygradServer, params: lsp.DidSaveNotebookDocumentParams) -> None:
    """Run again what is pinned."""
    ls.dry_runs.saved(params.notebook_document.uri)


def did_close(ls: DrygradServer, params: lsp.DidCloseNotebookDocumentParams) -> None:
    """Forget a notebook."""
    ls.session.close(params.notebook_document.uri)


def register(server: DrygradServer) -> None:
    """Register the handlers."""
    server.feature(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)(did_open)
    server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)(did_change)
    server.feature(lsp.NOTEBOOK_DOCUMENT_DID_SAVE)(did_save)
    server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)(did_close)
