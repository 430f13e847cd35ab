"""``textDocument/codeAction``, ``codeAction/resolve``: from what the diagnostics carry, without a new analysis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types as lsp

from drygrad.fixing import compatible
from drygrad.lsp import fix_all
from drygrad.lsp.checking import Checker, Shown
from drygrad.lsp.convert import SOURCE, OfferedFix, fixes_in
from drygrad.lsp.features.dry_run import DRY_RUN, dry_run_argument
from drygrad.lsp.features.forecast import FORECAST, as_edit, changes_of, forecast_argument
from drygrad.lsp.suppress import ignore_edit
from drygrad.model import Edit, Finding

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

QUICK_FIX = lsp.CodeActionKind.QuickFix.value
REWRITE = lsp.CodeActionKind.RefactorRewrite.value
FIX_ALL = f"{lsp.CodeActionKind.SourceFixAll.value}.drygrad"
NOTEBOOK_FIX_ALL = f"notebook.{FIX_ALL}"

RUN = "drygrad.dryRun"

WRITE_INPUTS = "Write the inputs of the last run as a comment"


async def code_action(ls: DrygradServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Return the actions for the diagnostics of a range, and ``fixAll`` where it is asked for."""
    if not ls.session.capabilities.code_action_literals:
        return []
    only = [str(getattr(kind, "value", kind)) for kind in params.context.only or ()]
    actions: list[lsp.CodeAction] = []
    checker = ls.session.checker_of(params.text_document.uri)
    if not only or _wanted(QUICK_FIX, only):
        if checker is not None and params.context.diagnostics:
            await checker.fresh()
        actions += QuickFixes(ls, params.text_document.uri).of(params.context.diagnostics)
    if checker is not None and _wanted(REWRITE, only or [REWRITE]):
        actions += await _written_inputs(ls, checker, params)
        actions += _changes(ls, params)
    if checker is not None and not ls.session.capabilities.shows_lenses and _wanted(RUN, only or [RUN]):
        actions += await _runs(ls, params)
    if checker is not None:
        kind = NOTEBOOK_FIX_ALL if _is_cell(checker, ls) else FIX_ALL
        if _wanted(kind, only):
            actions += await _fix_all(ls, checker, kind)
    return actions


def _wanted(kind: str, only: Iterable[str]) -> bool:
    return any(kind == one or kind.startswith(one + ".") for one in only)


def _is_cell(checker: Checker, ls: DrygradServer) -> bool:
    return ls.documents.get_notebook_document(notebook_uri=checker.uri) is not None


class QuickFixes:
    """The quick fixes of one text document."""

    def __init__(self, server: DrygradServer, uri: str) -> None:
        self._session = server.session
        self._uri = uri
        self._shown = server.session.shown(uri)
        self._version = server.session.version_of(uri)

    def of(self, diagnostics: Sequence[lsp.Diagnostic]) -> Iterator[lsp.CodeAction]:
        """Yield the actions for those of the diagnostics that belong to the present text."""
        present = [(d, data) for d in diagnostics if (data := self._present_data(d)) is not None]
        for diagnostic, data in present:
            yield from self._fixes(diagnostic, list(fixes_in(data)))
        for code in dict.fromkeys(str(d.code) for d, _ in present):
            yield from self._all_of_kind(code)
        for diagnostic, _ in present:
            yield from self._ignore(diagnostic)

    def _present_data(self, diagnostic: lsp.Diagnostic) -> dict[str, Any] | None:
        """Return what the diagnostic carries; None if it is not ours, or not true of the present text."""
        if diagnostic.source != SOURCE:
            return None
        own = self._of_present(diagnostic.data)
        if own is None and (known := self._known(diagnostic)) is not None:
            return self._of_present(known.data)  # sent back without its data, or before the editor heard of a newer one
        return own

    def _of_present(self, data: object) -> dict[str, Any] | None:
        """Return a diagnostic's data if it was made for the present text."""
        if not isinstance(data, dict):
            return None
        fields = cast("dict[str, Any]", data)
        return fields if fields.get("version") == self._version else None

    def _known(self, diagnostic: lsp.Diagnostic) -> lsp.Diagnostic | None:
        checker = self._session.checker_of(self._uri)
        if checker is None or self._shown is None:
            return None
        known = self._session.diagnostics(checker, self._shown.part.uri)
        return next((d for d in known if (d.code, d.range) == (diagnostic.code, diagnostic.range)), None)

    def _fixes(self, diagnostic: lsp.Diagnostic, fixes: list[OfferedFix]) -> Iterator[lsp.CodeAction]:
        verified = next((fix for fix in fixes if fix.verified), None)
        first_safe = next((fix for fix in fixes if fix.safe), None)
        preferred = verified or first_safe or (fixes[0] if len(fixes) == 1 else None)
        preferred = None if preferred is not None and preferred.verified is False else preferred
        for fix in fixes:
            if all(self._is_present(change) for change in fix.changes):
                yield lsp.CodeAction(
                    fix.full_title,
                    kind=lsp.CodeActionKind.QuickFix,
                    diagnostics=[diagnostic],
                    is_preferred=fix is preferred or None,
                    edit=self._session.workspace_edit(fix.changes),
                )

    def _is_present(self, change: lsp.TextDocumentEdit) -> bool:
        version = change.text_document.version
        return version is None or version == self._session.version_of(change.text_document.uri)

    def _all_of_kind(self, code: str) -> Iterator[lsp.CodeAction]:
        findings = [f for f in self._findings() if f.code == code and f.fixes]
        if len(findings) < 2 or self._shown is None:
            return
        safety = findings[0].fixes[0].safety
        fixes = compatible(f.fixes[0] for f in findings if f.fixes[0].safety == safety)
        if len(fixes) > 1:
            note = " (unsafe)" if safety == "unsafe" else ""
            where = "cell" if self._shown.part.uri.startswith("vscode-notebook-cell:") else "file"
            edits = [edit for fix in fixes for edit in fix.edits]
            yield self._action(f"Fix all {code} in this {where}{note}", self._shown, edits)

    def _ignore(self, diagnostic: lsp.Diagnostic) -> Iterator[lsp.CodeAction]:
        if self._shown is not None:
            source = self._shown.part.source
            position = self._session.units.to_position(source, diagnostic.range.start)
            edit = ignore_edit(source, position, str(diagnostic.code))
            yield self._action(f"Ignore {diagnostic.code} on this line", self._shown, [edit], [diagnostic])

    def _findings(self) -> Sequence[Finding]:
        return self._shown.findings if self._shown else ()

    def _action(
        self, title: str, shown: Shown, edits: Sequence[Edit], diagnostics: list[lsp.Diagnostic] | None = None
    ) -> lsp.CodeAction:
        change = self._session.document_edit(shown.part, edits)
        edit = self._session.workspace_edit([change])
        return lsp.CodeAction(title, kind=lsp.CodeActionKind.QuickFix, diagnostics=diagnostics, edit=edit)


async def _written_inputs(ls: DrygradServer, checker: Checker, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Return the actions that write the inputs of a target's last runs above it, where the range begins at its name."""
    uri, shown = params.text_document.uri, ls.session.shown(params.text_document.uri)
    sight = await ls.dry_runs.sight(uri) if not _is_cell(checker, ls) else None
    if sight is None or shown is None:
        return []
    view = sight.view
    places = ls.dry_runs.memory(uri).known_places(view.source)
    names = [place.qualname for place in places if place.line == params.range.start.line + 1]
    runs = [seen for name in names if name in view.outcomes for seen in view.outcomes[name].seen]
    edits = [edit for seen in runs if (edit := ls.dry_runs.service.inputs_edit(seen, view.source)) is not None]
    changes = [ls.session.workspace_edit([ls.session.document_edit(shown.part, [edit])]) for edit in edits]
    return [lsp.CodeAction(WRITE_INPUTS, kind=REWRITE, edit=change) for change in changes]


async def _runs(ls: DrygradServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Return what runs the target at the beginning of a range, for editors that show no lens above it."""
    uri, start = params.text_document.uri, params.range.start
    document = ls.documents.find(uri)
    if document is None or "torch" not in document.snapshot.text or not ls.dry_runs.trusts(uri):
        return []
    actions: list[lsp.CodeAction] = []
    for name in await ls.dry_runs.names_at(uri, start):
        title = f"Dry-run {name or 'the script'}"
        argument = dry_run_argument(uri, ls.session.version_of(uri), name, None if name else start.line + 1)
        actions.append(lsp.CodeAction(title, kind=RUN, command=lsp.Command(title, DRY_RUN, arguments=[argument])))
        actions += _forecasts(uri, name)
    return actions


def _forecasts(uri: str, name: str | None) -> Iterator[lsp.CodeAction]:
    for what_if, more in ((False, ""), (True, " with what-if")):
        title, argument = f"Forecast {name or 'the script'}{more}", forecast_argument(uri, name, what_if=what_if)
        yield lsp.CodeAction(title, kind=RUN, command=lsp.Command(title, FORECAST, arguments=[argument]))


def _changes(ls: DrygradServer, params: lsp.CodeActionParams) -> Iterator[lsp.CodeAction]:
    """Yield the changes that a forecast has traced, where a target is named and where they change the text."""
    uri, line = params.text_document.uri, params.range.start.line + 1
    memory = ls.forecasts.memory(uri)
    named = {place.qualname: place.line for place in memory.known_places(memory.view.source)}
    for name in memory.view.outcomes:
        for fix in changes_of(ls, uri, name):
            lines = {named.get(name), *(edit.span.start.line for edit in fix.edits)}
            if line in lines and (edit := as_edit(ls, uri, fix)) is not None:
                yield lsp.CodeAction(fix.title, kind=REWRITE, edit=edit)


async def _fix_all(ls: DrygradServer, checker: Checker, kind: str) -> list[lsp.CodeAction]:
    action = lsp.CodeAction("Fix all safe drygrad findings", kind=kind, data={"uri": checker.uri})
    if not ls.session.capabilities.resolves_edits:
        action.edit = await _fix_all_edit(ls, checker)
        return [action] if action.edit is not None else []
    return [action]


async def _fix_all_edit(ls: DrygradServer, checker: Checker) -> lsp.WorkspaceEdit | None:
    """Return the edit; None where nothing is to be fixed, or the text changed meanwhile."""
    session = ls.session
    await checker.fresh()
    module, analyzer = checker.module, session.new_analyzer(checker.uri)
    if module is None or analyzer is None:
        return None
    loop = asyncio.get_running_loop()
    edits = await loop.run_in_executor(session.executor, fix_all.fix_all, module, analyzer)
    if not edits or not checker.is_fresh or checker.closed:
        return None
    return session.workspace_edit([session.document_edit(module.by_uri[uri], e) for uri, e in edits.items()])


async def resolve(ls: DrygradServer, action: lsp.CodeAction) -> lsp.CodeAction:
    """Compute the edit of a ``fixAll`` that the user has chosen."""
    data: object = action.data
    uri: object = cast("dict[str, object]", data).get("uri") if isinstance(data, dict) else None
    checker = ls.session.checker_of(uri) if isinstance(uri, str) else None
    if checker is not None and action.edit is None:
        action.edit = await _fix_all_edit(ls, checker)
    return action


def register(server: DrygradServer) -> None:
    """Register the handlers."""
    kinds = [lsp.CodeActionKind.QuickFix, REWRITE, RUN, FIX_ALL, NOTEBOOK_FIX_ALL]
    options = lsp.CodeActionOptions(code_action_kinds=kinds, resolve_provider=True)
    server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, options)(code_action)
    server.feature(lsp.CODE_ACTION_RESOLVE)(resolve)
