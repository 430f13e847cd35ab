"""``textDocument/publishDiagnostics`` or ``textDocument/diagnostic``, whichever the client wants.

Notebooks are always published: a cell's findings change when another cell is edited, which a pulling client would not
hear of.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias

from lsprotocol import types as lsp

from drygrad.lsp.checking import Checker
from drygrad.lsp.convert import SOURCE, result_id
from drygrad.lsp.features import workspace_diagnostic
from drygrad.lsp.project_check import ProjectCheck

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger(__name__)

Report: TypeAlias = lsp.RelatedFullDocumentDiagnosticReport | lsp.RelatedUnchangedDocumentDiagnosticReport


class Push:
    """Publishes each new result; an empty one where a document or a cell is gone."""

    def __init__(self, server: DrygradServer, *, notebooks_only: bool) -> None:
        self._server = server
        self._notebooks_only = notebooks_only
        self._published: dict[str, set[str]] = {}

    def show(self, checker: Checker) -> None:
        """Publish a result."""
        if self._notebooks_only and not _is_notebook(checker):
            return
        before = self._published.get(checker.uri, set())
        self._published[checker.uri] = set(checker.shown)
        for uri in before - set(checker.shown):
            self._publish(uri, [], None)
        for uri, shown in checker.shown.items():
            self._publish(uri, self._server.session.diagnostics(checker, uri), shown.part.version)

    def forget(self, checker: Checker) -> None:
        """Take back what was published."""
        for uri in self._published.pop(checker.uri, set()):
            self._publish(uri, [], None)

    def _publish(self, uri: str, items: list[lsp.Diagnostic], version: int | None) -> None:
        params = lsp.PublishDiagnosticsParams(uri, items, version)
        self._server.text_document_publish_diagnostics(params)


class Pull:
    """Answers with the result for the present text, and asks to be asked again when it changes without an edit."""

    def __init__(self, server: DrygradServer, project: ProjectCheck | None) -> None:
        self._server = server
        self._project = project
        self._answered: dict[str, tuple[int, int | None]] = {}

    async def diagnostic(self, params: lsp.DocumentDiagnosticParams) -> Report:
        """Answer a request."""
        uri = params.text_document.uri
        checker = self._server.session.checker_of(uri)
        if checker is None:
            return self._not_open(params)
        if _is_notebook(checker):
            return lsp.RelatedFullDocumentDiagnosticReport(items=[])
        await checker.fresh()
        shown = checker.shown.get(checker.uri)
        if checker.closed or shown is None:
            return lsp.RelatedFullDocumentDiagnosticReport(items=[])
        self._answered[checker.uri] = (checker.checked, shown.part.version)
        items = self._server.session.diagnostics(checker, checker.uri)
        return _report(items, result_id(items), params.previous_result_id)

    def _not_open(self, params: lsp.DocumentDiagnosticParams) -> Report:
        """Answer for a file that is not open, or no longer: what the check of the workspace knows of it."""
        known = self._project.of(params.text_document.uri) if self._project else None
        if known is None:
            return lsp.RelatedFullDocumentDiagnosticReport(items=[])
        return _report(known.items, known.result_id, params.previous_result_id)

    def show(self, checker: Checker) -> None:
        """Ask the client to pull again where a result is new but the text is not."""
        answered = self._answered.get(checker.uri)
        shown = checker.shown.get(checker.uri)
        if answered and shown and answered[1] == shown.part.version and answered[0] != checker.checked:
            self._server.workspace_diagnostic_refresh(None)

    def forget(self, checker: Checker) -> None:
        """Forget a closed document."""
        self._answered.pop(checker.uri, None)


def register(server: DrygradServer) -> None:
    """Choose by the client's abilities; called at ``initialize``."""
    session = server.session
    able = session.capabilities
    # What a dry run finds comes later than the text: a client that cannot be asked to pull again gets it pushed.
    pulls = able.pulls_diagnostics and able.refreshes_diagnostics
    push = Push(server, notebooks_only=pulls)
    session.listeners.append(push.show)
    session.closing.append(push.forget)
    if not pulls:
        return
    project = ProjectCheck(server) if session.settings.personal.diagnostic_mode == "workspace" else None
    pull = Pull(server, project)
    session.closing.append(pull.forget)
    session.listeners.append(pull.show)

    async def diagnostic(params: lsp.DocumentDiagnosticParams) -> Report:
        return await pull.diagnostic(params)

    everything = project is not None
    options = lsp.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=everything, identifier=SOURCE)
    server.feature(lsp.TEXT_DOCUMENT_DIAGNOSTIC, options)(diagnostic)
    if project is not None:
        server.project_check = project
        workspace_diagnostic.register(server, project)


def _report(items: list[lsp.Diagnostic], name: str, previous: str | None) -> Report:
    if previous == name:
        return lsp.RelatedUnchangedDocumentDiagnosticReport(name)
    return lsp.RelatedFullDocumentDiagnosticReport(items=items, result_id=name)


def _is_notebook(checker: Checker) -> bool:
    return checker.module is not None and checker.module.is_notebook
