"""Settings: asked for, watched, applied; what is wrong with them is shown where it stands."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from drygrad.lsp import logs
from drygrad.lsp.base.units import Units
from drygrad.lsp.convert import SOURCE
from drygrad.lsp.progress import progress
from drygrad.lsp.settings import FromEditor, path_of
from drygrad.model import Position, Span
from drygrad.project import SettingsProblem
from drygrad.static.source import Source, SourceError, read

if TYPE_CHECKING:
    from drygrad.lsp.checking import Checker
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger(__name__)

SECTION = "drygrad"
_PROJECT_FILE = "pyproject.toml"


def section(given: object) -> object:
    """Return drygrad's part of what a client sent: some send it bare, some under its name or ``settings``."""
    if isinstance(given, Mapping):
        fields = cast("Mapping[str, object]", given)
        for name in (SECTION, "settings"):
            if isinstance(fields.get(name), Mapping):
                return section(fields[name])
        return fields
    return given


def subscribe(ls: DrygradServer) -> None:
    """Ask the client to tell when settings or project files change."""
    able = ls.session.capabilities
    wanted: list[lsp.Registration] = []
    if able.registers_configuration:
        options = lsp.DidChangeConfigurationRegistrationOptions(section=SECTION)
        wanted.append(_registration(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, options))
    if able.watches_files:
        watchers = [lsp.FileSystemWatcher(glob_pattern=f"**/{name}") for name in (_PROJECT_FILE, "*.py")]
        files = lsp.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
        wanted.append(_registration(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, files))
    if wanted:
        ls.client_register_capability(lsp.RegistrationParams(wanted))


def _registration(method: str, options: Any) -> lsp.Registration:
    return lsp.Registration(id=f"drygrad-{method}", method=method, register_options=options)


async def load(ls: DrygradServer) -> None:
    """Ask for the editor's settings where the client can be asked, and apply everything."""
    state = ls.session.settings
    folders = [(folder.uri, path) for folder in ls.documents.folders.values() if (path := path_of(folder.uri))]
    opened = [(checker.uri, path) for checker in ls.session.checkers if (path := path_of(checker.uri))]
    files = [(uri, path) for uri, path in opened if state.asks_for(path)]
    answer = await _ask(ls, [None, *(uri for uri, _ in [*folders, *files])])
    if any(given is not None for given in answer):  # a client that knows nothing of us leaves the initial options
        default, *scoped = [FromEditor.read(given, trusted=state.trusted_at_start) for given in answer]
        state.set_editor(default, {path: given for (_, path), given in zip(folders, scoped, strict=False)})
        for (_, path), given in zip(files, scoped[len(folders) :], strict=False):
            state.set_file(path, given)
    await apply(ls)


async def load_file(ls: DrygradServer, uri: str) -> None:
    """Ask for the settings of a file that is to be run: an editor may know an interpreter for it alone."""
    state, path = ls.session.settings, path_of(uri)
    if path is None:
        return
    if not state.asks_for(path):
        state.set_file(path, None)  # whoever asks for all from now on asks for this one, too
    (given, *_) = await _ask(ls, [uri])
    if given is not None and state.asks_for(path):
        state.set_file(path, FromEditor.read(given, trusted=state.trusted_at_start))
        ls.session.recheck()


async def _ask(ls: DrygradServer, scopes: Sequence[str | None]) -> Sequence[object]:
    """Return what the client says of our settings in each scope (None: everywhere); None where it does not say."""
    nothing = [None] * len(scopes)
    if not ls.session.capabilities.configuration:
        return nothing
    items = [lsp.ConfigurationItem(scope_uri=uri, section=SECTION) for uri in scopes]
    try:
        return await ls.workspace_configuration_async(lsp.ConfigurationParams(items)) or nothing
    except JsonRpcException as error:
        log.warning("the client did not tell its settings: %s", error)
        return nothing


async def apply(ls: DrygradServer) -> None:
    """Check again what the settings change, and show what is wrong with them."""
    set_log_level(ls)
    show_problems(ls)
    ls.dry_runs.settings_changed()
    if ls.project_check is not None:
        ls.project_check.changed()
    checkers = ls.session.recheck()
    if not checkers:
        return
    async with progress(ls, "drygrad: checking open files") as report:
        for done, checker in enumerate(checkers):
            report(done, len(checkers))
            await checker.fresh()


def set_log_level(ls: DrygradServer) -> None:
    """Log as much as the editor wants; one that does not say leaves it to the command line."""
    if level := ls.session.settings.log_level:
        logs.set_level(level)


def show_problems(ls: DrygradServer) -> None:
    """Publish what is wrong in project files on these files; say what is wrong in the editor's settings."""
    state = ls.session.settings
    by_file: dict[Path, list[SettingsProblem]] = {path: [] for path in state.shown_problems}
    for problem in state.problems():
        by_file.setdefault(problem.path, []).append(problem)
    for path, problems in by_file.items():
        if state.shown_problems.get(path, []) != problems:
            items = [_diagnostic(ls.session.units, problem) for problem in problems]
            ls.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(path.as_uri(), items))
    state.shown_problems = {path: problems for path, problems in by_file.items() if problems}
    if text := state.new_complaint():
        ls.show(lsp.MessageType.Warning, text)


def _diagnostic(units: Units, problem: SettingsProblem) -> lsp.Diagnostic:
    try:
        source = read(problem.path)
    except (OSError, SourceError):
        source = Source("")
    start = Position(problem.line, problem.column)
    end = Position(problem.line, max(len(source.line_text(problem.line)), problem.column))
    span = units.from_span(source, Span(start, end))
    return lsp.Diagnostic(span, problem.message, lsp.DiagnosticSeverity.Warning, source=SOURCE)


def did_change_configuration(ls: DrygradServer, params: lsp.DidChangeConfigurationParams) -> None:
    """Apply changed settings of the editor."""
    if not ls.session.capabilities.configuration:
        state = ls.session.settings
        state.set_editor(FromEditor.read(section(params.settings), trusted=state.trusted_at_start))
    ls.spawn(load(ls), "reading the settings")


def did_change_watched_files(ls: DrygradServer, params: lsp.DidChangeWatchedFilesParams) -> None:
    """Read changed project files, once for all of them; look again at what is imported from changed modules."""
    ls.launches.forget()
    if any(change.uri.endswith(_PROJECT_FILE) for change in params.changes):
        ls.session.settings.forget_projects()
        ls.spawn(apply(ls), "reading the project files")
    elif ls.project_check is not None:
        ls.project_check.changed()
    modules = {path: change for change in params.changes if (path := path_of(change.uri)) and path.suffix == ".py"}
    if modules:
        new = any(change.type == lsp.FileChangeType.Created for change in modules.values())
        ls.dry_runs.files_changed(modules.keys(), new=new)
        ls.imported_names.changed(modules)


def did_change_workspace_folders(ls: DrygradServer, _: lsp.DidChangeWorkspaceFoldersParams) -> None:
    """Ask for the settings of the folders as they are now."""
    ls.spawn(load(ls), "reading the settings")


def _closed(ls: DrygradServer, checker: Checker) -> None:
    """Forget what was asked for a file."""
    if (path := path_of(checker.uri)) is not None:
        ls.session.settings.forget_file(path)


def register(server: DrygradServer) -> None:
    """Register the handlers."""
    server.session.ask_settings = partial(load_file, server)
    server.session.closing.append(partial(_closed, server))
    server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)(did_change_configuration)
    server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)(did_change_watched_files)
    server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(did_change_workspace_folders)
