"""``workspace/diagnostic``: what is found in all files of the workspace, told as it is found.

A client that takes partial results asks again as soon as it is answered. So the answer waits until there is news, if
there has been none since it was asked before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from lsprotocol import types as lsp

from drygrad.lsp.convert import result_id
from drygrad.lsp.project_check import Checked, ProjectCheck

if TYPE_CHECKING:
    from drygrad.lsp.checking import Checker
    from drygrad.lsp.server import DrygradServer

_BATCH_SECONDS = 0.2

Report: TypeAlias = lsp.WorkspaceFullDocumentDiagnosticReport | lsp.WorkspaceUnchangedDocumentDiagnosticReport


class _Answer:
    """The answer to one request: reports of what the client does not know, sent in batches where it takes them."""

    def __init__(self, server: DrygradServer, project: ProjectCheck, params: lsp.WorkspaceDiagnosticParams) -> None:
        self._server = server
        self._project = project
        self._token = params.partial_result_token
        self._previous = {unquote(each.uri): (each.uri, each.value) for each in params.previous_result_ids}
        self._told: dict[str, str] = {}
        self._waiting: list[Report] = []
        self._sent = 0.0

    @property
    def has_news(self) -> bool:
        """Whether there is anything that the client did not know."""
        return bool(self._told)

    def full(self, uri: str, items: list[lsp.Diagnostic], version: int | None, name: str) -> None:
        """Report what was found in a file, unless the client knows it; nothing is news only where something was."""
        key = unquote(uri)
        _, known = self._previous.get(key, (uri, None))
        known = self._told.get(key, known)
        if known == name or not (items or known):
            return
        self._told[key] = name
        self._waiting.append(lsp.WorkspaceFullDocumentDiagnosticReport(uri, items, version, result_id=name))
        if time.monotonic() - self._sent > _BATCH_SECONDS:
            self._flush()

    def finished(self, current: Mapping[str, str]) -> lsp.WorkspaceDiagnosticReport:
        """Report what has not changed, and return what is left to answer; ``current`` has the results by file."""
        for key, (uri, name) in self._previous.items():
            if key not in self._told and current.get(key) == name:
                self._waiting.append(lsp.WorkspaceUnchangedDocumentDiagnosticReport(uri, name))
        self._flush()
        return lsp.WorkspaceDiagnosticReport(self._waiting)

    def gone(self, current: Mapping[str, str]) -> None:
        """Report that nothing is found in files that are no more, or are not checked any more."""
        for key, (uri, _) in self._previous.items():
            if key not in current:
                self.full(uri, [], None, result_id([]))

    def _flush(self) -> None:
        if self._token is None or not self._waiting:
            return
        partial = self._project.plain(lsp.WorkspaceDiagnosticReportPartialResult(self._waiting))
        self._server.protocol.notify(lsp.PROGRESS, lsp.ProgressParams(self._token, partial))
        self._waiting, self._sent = [], time.monotonic()


class WorkspacePull:
    """Answers requests for all that is found."""

    def __init__(self, server: DrygradServer, project: ProjectCheck) -> None:
        self._server = server
        self._project = project

    async def diagnostic(self, params: lsp.WorkspaceDiagnosticParams) -> lsp.WorkspaceDiagnosticReport:
        """Answer a request."""
        waits = params.partial_result_token is not None and self._server.session.capabilities.watches_files
        answer = _Answer(self._server, self._project, params)

        def told(checked: Checked) -> None:
            if self._server.session.checker_of(checked.uri) is None:
                answer.full(checked.uri, checked.items, None, checked.result_id)

        while True:
            await self._project.fresh(told)
            current = await self._current(answer)
            answer.gone(current)
            if answer.has_news or not waits:
                return answer.finished(current)
            await self._project.news()

    async def _current(self, answer: _Answer) -> dict[str, str]:
        """Report what is known of each file, as it is in the editor where it is open; return the results' names."""
        session = self._server.session
        current: dict[str, str] = {}
        for checked in self._project.known.values():
            if session.checker_of(checked.uri) is None:
                current[unquote(checked.uri)] = checked.result_id
                answer.full(checked.uri, checked.items, None, checked.result_id)
        for checker in session.checkers:
            await checker.fresh()
            shown = _shown(checker)
            if shown is not None and not checker.closed:
                items = session.diagnostics(checker, checker.uri)
                name = current[unquote(checker.uri)] = result_id(items)
                answer.full(checker.uri, items, shown, name)
        return current


def _shown(checker: Checker) -> int | None:
    """Return the version of the text that is shown of a document; None for a notebook, and for what is not checked."""
    shown = checker.shown.get(checker.uri)
    return shown.part.version if shown else None


def register(server: DrygradServer, project: ProjectCheck) -> None:
    """Answer a client that may ask for all; called where the settings want it."""
    pull = WorkspacePull(server, project)

    async def diagnostic(params: lsp.WorkspaceDiagnosticParams) -> lsp.WorkspaceDiagnosticReport:
        return await pull.diagnostic(params)

    server.feature(lsp.WORKSPACE_DIAGNOSTIC)(diagnostic)
    server.session.closing.append(lambda _: project.wake())
