"""The least that a Python language server can do: parse and walk on each edit, at once, on plain pygls."""

import ast

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

server = LanguageServer("floor", "1")


def publish(uri: str) -> None:
    """Report each use of one name."""
    document = server.workspace.get_text_document(uri)
    found: list[lsp.Diagnostic] = []
    try:
        for node in ast.walk(ast.parse(document.source)):
            if isinstance(node, ast.Name) and node.id == "not_defined_anywhere":
                start, end = lsp.Position(node.lineno - 1, node.col_offset), lsp.Position(node.lineno - 1, 99)
                found.append(lsp.Diagnostic(lsp.Range(start, end), "undefined name", lsp.DiagnosticSeverity.Error))
    except SyntaxError as error:
        line = (error.lineno or 1) - 1
        found.append(lsp.Diagnostic(lsp.Range(lsp.Position(line, 0), lsp.Position(line, 1)), error.msg))
    server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, document.version))


@server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
def did_open(params: lsp.DidOpenTextDocumentParams) -> None:
    """Check a new text."""
    publish(params.text_document.uri)


@server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
def did_change(params: lsp.DidChangeTextDocumentParams) -> None:
    """Check a changed text."""
    publish(params.text_document.uri)


if __name__ == "__main__":
    server.start_io()
