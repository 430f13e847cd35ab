"""Everything open, and what is known of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from lsprotocol import types as lsp
from pygls.exceptions import FeatureNotificationError

from drygrad.lsp.base.units import Units
from drygrad.lsp.capabilities import Capabilities
from drygrad.lsp.checking import Analyzes, Checker, MakeAnalyzer, Shown
from drygrad.lsp.convert import Converter
from drygrad.lsp.known_findings import with_baseline
from drygrad.lsp.modules import Module, Part
from drygrad.lsp.settings import Resolved, SettingsStore, path_of
from drygrad.model import Edit
from drygrad.settings import Settings

if TYPE_CHECKING:
    from drygrad.lsp.base.documents import Document
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger(__name__)

_STACK_BYTES = 64 * 1024 * 1024
"""Room for deeply nested expressions; some platforms give a thread only 512 KiB."""

AnalyzerFactory: TypeAlias = Callable[[Settings], Analyzes]


def static_analyzer(settings: Settings) -> Analyzes:
    """Make the static witness; its rules are imported here, in the thread that checks."""
    from drygrad.static.engine import Analyzer  # noqa: PLC0415 - the answer to `initialize` need not wait for the rules

    return Analyzer(settings)


async def _nothing_to_ask(_: str) -> None:
    pass


class Session:
    """The open documents and notebooks, each with its checker."""

    def __init__(self, server: DrygradServer, analyzer_factory: AnalyzerFactory = static_analyzer) -> None:
        self.settings = SettingsStore()
        self.capabilities = Capabilities()
        self.units = Units("utf-16")
        self.executor: Executor = _one_thread()
        self.listeners: list[Callable[[Checker], None]] = []
        self.closing: list[Callable[[Checker], None]] = []
        self.amend: Callable[[str, Analyzes], Analyzes] = lambda uri, analyzer: analyzer
        self.ask_settings: Callable[[str], Awaitable[None]] = _nothing_to_ask
        self._server = server
        self._make_analyzer = analyzer_factory
        self._checkers: dict[str, Checker] = {}
        self._resolved: WeakKeyDictionary[Checker, Resolved] = WeakKeyDictionary()
        self._converted: WeakKeyDictionary[Shown, list[lsp.Diagnostic]] = WeakKeyDictionary()

    def start(self, params: lsp.InitializeParams) -> None:
        """Take over what the client said of itself, and warm up."""
        self.capabilities = Capabilities.of(params.capabilities)
        self.units = Units(str(self._server.documents.position_encoding))
        self.executor.submit(self._make_analyzer, Settings())

    @property
    def checkers(self) -> Iterable[Checker]:
        """The checkers of all that is open."""
        return tuple(self._checkers.values())

    def open(self, uri: str) -> None:
        """Begin to check a document or a notebook, at once."""
        self.close(uri)
        resolved = self.resolve(uri)
        checker = self._checkers[unquote(uri)] = Checker(uri, self, self._amended(uri, resolved))
        self._resolved[checker] = resolved
        checker.edited(0)

    def changed(self, uri: str) -> None:
        """Check a document or a notebook again when its changes pause."""
        checker = self._checkers.get(unquote(uri))
        if checker is not None:
            checker.edited(self._resolved[checker].personal.debounce / 1000)

    def close(self, uri: str) -> None:
        """Forget a document or a notebook."""
        checker = self._checkers.pop(unquote(uri), None)
        if checker is not None:
            checker.close()
            for listener in self.closing:
                listener(checker)

    def home_of(self, uri: str) -> str:
        """Return what a text is checked as a part of: the notebook of a cell, else itself."""
        notebook = self._server.documents.get_notebook_document(cell_uri=uri)
        return notebook.uri if notebook else uri

    def checker_of(self, uri: str) -> Checker | None:
        """Return the checker of a document, a notebook, or a notebook's cell."""
        return self._checkers.get(unquote(self.home_of(uri)))

    def shown(self, uri: str) -> Shown | None:
        """Return what is known of the present version of a text document; None if nothing yet, or only of an older."""
        checker, document = self.checker_of(uri), self._server.documents.find(uri)
        shown = checker.shown.get(document.uri) if checker and document else None
        return shown if shown and document and shown.part.version == document.version else None

    def version_of(self, uri: str) -> int | None:
        """Return the version of an open text document."""
        document = self._server.documents.find(uri)
        return document.version if document else None

    def resolve(self, uri: str) -> Resolved:
        """Return the settings of a document, a notebook, or a notebook's cell."""
        return self.settings.resolve(path_of(self.home_of(uri)) or self._nameless_path())

    def recheck(self) -> list[Checker]:
        """Check again what the settings as they are now change; return it."""
        changed: list[Checker] = []
        for checker in self.checkers:
            resolved = self.resolve(checker.uri)
            if resolved != self._resolved.get(checker):
                self._resolved[checker] = resolved
                checker.use(self._amended(checker.uri, resolved))
                changed.append(checker)
        return changed

    def new_analyzer(self, uri: str) -> Analyzes | None:
        """Return an analyzer of its own for a document or a notebook; None if that is not to be checked."""
        return self._analyzer_for(self.resolve(uri))()

    def diagnostics(self, checker: Checker, uri: str) -> list[lsp.Diagnostic]:
        """Return the diagnostics of what is shown of a text document; they are converted once."""
        shown, module = checker.shown[uri], checker.module
        if module is None:
            return []
        if shown not in self._converted:
            converter = Converter(self.units, self.capabilities)
            self._converted[shown] = converter.diagnostics(module, shown)
        return self._converted[shown]

    def document_edit(self, part: Part, edits: Iterable[Edit]) -> lsp.TextDocumentEdit:
        """Return edits of a text as the client counts, for the version that they were made for."""
        identifier = lsp.OptionalVersionedTextDocumentIdentifier(part.uri, part.version)
        changes = [lsp.TextEdit(self.units.from_span(part.source, e.span), e.new_text) for e in edits]
        return lsp.TextDocumentEdit(identifier, changes)

    def workspace_edit(self, changes: Sequence[lsp.TextDocumentEdit]) -> lsp.WorkspaceEdit:
        """Return an edit in the form that the client takes."""
        if self.capabilities.document_changes:
            return lsp.WorkspaceEdit(document_changes=list(changes))
        edits = {c.text_document.uri: [e for e in c.edits if isinstance(e, lsp.TextEdit)] for c in changes}
        return lsp.WorkspaceEdit(changes=edits)

    def take(self, uri: str) -> Module:
        """Return a document, or a notebook's cells, as they stand."""
        notebook = self._server.documents.get_notebook_document(notebook_uri=uri)
        if notebook is None:
            document = self._server.documents.find(uri)
            return Module.of_document(_part(document)) if document else Module.of_cells(())
        code = [(n, cell) for n, cell in enumerate(notebook.cells, 1) if cell.kind == lsp.NotebookCellKind.Code]
        documents = ((n, self._server.documents.find(cell.document)) for n, cell in code)
        parts = tuple(_part(d, n) for n, d in documents if d and d.language_id in (None, "python"))
        checker = self._checkers.get(unquote(uri))
        known = checker.module if checker else None
        return known if known and known.parts == parts else Module.of_cells(parts)

    def accept(self, checker: Checker) -> None:
        """Tell the listeners of a new result."""
        for listener in self.listeners:
            listener(checker)

    def failed(self, error: Exception) -> None:
        """Tell the user of a bug in the analysis, as of any other."""
        self._server.report_server_error(error, FeatureNotificationError)

    def file_of(self, uri: str) -> Path:
        """Return the file that a text is, or is taken to be."""
        return path_of(uri) or self._nameless_path() or Path.cwd() / "untitled.py"

    def texts(self) -> dict[Path, str]:
        """Return the texts of all open files, saved or not."""
        documents = {path_of(c.uri): self._server.documents.find(c.uri) for c in self.checkers}
        return {path: document.snapshot.text for path, document in documents.items() if path and document}

    def _amended(self, uri: str, resolved: Resolved) -> MakeAnalyzer:
        make_plain = self._analyzer_for(resolved)

        def make() -> Analyzes | None:
            analyzer = make_plain()
            return self.amend(uri, analyzer) if analyzer is not None else None

        return make

    def _analyzer_for(self, resolved: Resolved) -> MakeAnalyzer:
        def make() -> Analyzes | None:
            if resolved.excluded:
                return None
            analyzer = self._make_analyzer(resolved.settings)
            if resolved.baseline is None or resolved.path is None:
                return analyzer
            return with_baseline(analyzer, resolved.baseline, resolved.path)

        return make

    def _nameless_path(self) -> Path | None:
        """Return where a text without a file is taken to be: in the first folder of the workspace."""
        for folder in self._server.documents.folders.values():
            path = path_of(folder.uri)
            if path is not None:
                return path / "untitled.py"
        return None


def _part(document: Document, cell: int = 1) -> Part:
    return Part(document.uri, document.version, document.snapshot, cell)


def _one_thread() -> ThreadPoolExecutor:
    """Return the thread that analyses; hovers are answered meanwhile."""
    executor = ThreadPoolExecutor(1, "analysis")
    old = threading.stack_size(_STACK_BYTES)
    try:
        executor.submit(int).result()
    finally:
        threading.stack_size(old)
    return executor
