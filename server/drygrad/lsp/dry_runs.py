"""The dry runs of the open documents: started, pinned, cancelled, remembered."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from lsprotocol import types as lsp

from drygrad.dryrun.workspace_imports import imported_files
from drygrad.lsp.dry_run_service import DryRunService, Seen, Target
from drygrad.lsp.following import Following
from drygrad.lsp.other_files import OtherFiles
from drygrad.lsp.progress import Progress
from drygrad.lsp.refreshing import Refreshing
from drygrad.lsp.run_history import History
from drygrad.lsp.run_memory import Outcome, RunMemory, Sight, WithRuns
from drygrad.lsp.run_settings import settings_of
from drygrad.lsp.run_words import phase_words, words_of
from drygrad.lsp.running import QUEUED, Choice, Conditions, Running, replaces
from drygrad.lsp.settings import path_of
from drygrad.model import Position
from drygrad.static.source import Source, SourceError, read

if TYPE_CHECKING:
    from drygrad.lsp.checking import Analyzes, Checker
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger(__name__)

STATUS = "drygrad/status"

UNTRUSTED = (
    "This workspace is not trusted, so drygrad runs nothing here. Set drygrad.trusted (or the initialization option "
    "trusted) to true if you would run its code yourself."
)

T = TypeVar("T")


class DryRuns:
    """Owns every run: none outlives its document, the trust in the workspace, or the server."""

    def __init__(self, server: DrygradServer, service: DryRunService) -> None:
        self.service = service
        self._server = server
        self._ids = (f"run-{number}" for number in itertools.count(1))
        self._memories: dict[str, RunMemory] = {}
        self._pins: dict[str, set[str | None]] = {}
        self._launches: dict[str, str | None] = {}
        """How the program of a document was started by who has asked last."""
        self._running: dict[str, Running] = {}
        self.history = History(service)
        self._last: dict[str, Any] | None = None
        self._told: dict[str, Any] | None = None
        self._following = Following(server, self)
        self._refreshing = Refreshing(server)
        self._workers: dict[str, tuple[str | None, tuple[str, ...]]] = {}
        server.session.amend = self.amend
        server.session.closing.append(self.closed)
        self._others = OtherFiles(server, self._memories)
        service.on_state(self.tell)

    def amend(self, uri: str, analyzer: Analyzes) -> Analyzes:
        """Have a document's findings merged with what its runs have found."""
        return WithRuns(analyzer, self.memory(uri))

    def memory(self, uri: str) -> RunMemory:
        """Return what is known of a document."""
        others = partial(self._others.found_in, path_of(uri))
        return self._memories.setdefault(self.key(uri), RunMemory(self.service, others))

    @property
    def was_asked(self) -> bool:
        """Whether anything was run, or runs now."""
        return self._last is not None or bool(self._running)

    def key(self, uri: str) -> str:
        """Return what a document, or the notebook of a cell, is known by."""
        return unquote(self._server.session.home_of(uri))

    def trusts(self, uri: str) -> bool:
        """Say whether code of a document's folder may be executed."""
        return self._server.session.resolve(uri).personal.trusted

    def pinned(self, uri: str) -> frozenset[str | None]:
        """Return the names of the targets that run again when the document is saved."""
        return frozenset(self._pins.get(self.key(uri), ()))

    def running(self, uri: str) -> dict[str | None, tuple[str, str]]:
        """Return the targets of a document that run now or are queued: the id of the run, and what it is doing."""
        own = (run for run in self._running.values() if self.key(run.checker.uri) == self.key(uri))
        return {name: (run.run_id, phase) for run in own for name, phase in run.phases.items()}

    async def sight(self, uri: str) -> Sight | None:
        """Return what is true of a text as it is, when that is checked; None where nothing is known of it."""
        checker = self._server.session.checker_of(uri)
        if checker is None:
            return None
        await checker.settled()
        return None if checker.closed else self.seen_of(checker, uri)

    def seen_of(self, checker: Checker, uri: str) -> Sight | None:
        """Return what is true of a text as it was checked last."""
        view, module, document = self.memory(uri).view, checker.module, self._server.documents.find(uri)
        part = module.by_uri.get(document.uri) if module and document else None
        return Sight(view, module, part) if module and part and view.source is module.source else None

    def ask(
        self, uri: str, qualname: str | None, position: lsp.Position | None, how: Conditions, *, script: bool = False
    ) -> dict[str, str | None]:
        """Start the run that a user asks for: of a target, of what stands at a position, of the script, or of all."""
        checker = self._server.session.checker_of(uri)
        if checker is None:
            return _refused("The document is not open or is not Python.")
        if not self.trusts(uri):
            self._server.show_rarely("untrusted", lsp.MessageType.Warning, UNTRUSTED)
            return _refused(UNTRUSTED)
        place = f"line {position.line + 1}" if position else Path(checker.uri).name
        choose = self._named(None) if script else self._choice(uri, qualname, position)
        run = Running(next(self._ids), checker, qualname or place, choose, how)
        if how.forecast is None:
            self._launches[self.key(uri)] = how.launch
        else:  # the program is started as it was last
            run.how = replace(how, launch=how.launch or self._launches.get(self.key(uri)))
        self._start(run)
        return {"runId": run.run_id}

    def _named(self, *names: str | None) -> Choice:
        return lambda source: [target for target in self.service.targets(source) if target.qualname in names]

    def _choice(self, uri: str, qualname: str | None, position: lsp.Position | None) -> Choice:
        if qualname is not None:
            return self._named(qualname)

        def choose(source: Source) -> Sequence[Target]:
            if where is None:
                return self.service.targets(source)
            target = self.service.target_at(source, where)
            return [target] if target else []

        session = self._server.session
        module, document = session.take(session.home_of(uri)), self._server.documents.find(uri)
        where: Position | None = None
        if position is not None and document is not None and document.uri in module.by_uri:
            inside = session.units.to_position(document.snapshot, position)
            where = Position(module.lines_of(document.uri)[inside.line - 1], inside.column)
        return choose

    def cancel(self, run_id: str | None) -> bool:
        """End a run and what follows it, or (None) all; say whether there was one."""
        runs = [run for run in self._running.values() if run_id in (None, run.run_id)]
        for run in runs:
            run.cancel()
        return self._following.cancel(run_id) or bool(runs)

    async def pin(self, uri: str, qualname: str | None, position: lsp.Position | None, pinned: bool) -> None:
        """Have a target run again at each save, or no longer: the one that is named, or that stands at a position."""
        names = {qualname} if position is None else await self.names_at(uri, position)
        if not names:
            self._server.show_rarely("no target", lsp.MessageType.Warning, "There is no function here to dry-run.")
        pins = self._pins.setdefault(self.key(uri), set())
        (pins.update if pinned else pins.difference_update)(names)
        self.refresh()

    async def names_at(self, uri: str, position: lsp.Position) -> set[str | None]:
        """Return the name of the target at a position, if there is one."""
        session = self._server.session
        try:
            found = await self._in_thread(self._choice(uri, None, position), session.take(session.home_of(uri)).source)
        except SourceError:
            return set()
        return {target.qualname for target in found}

    def clear(self) -> None:
        """Forget what runs have found."""
        for checker in self._server.session.checkers:
            self.memory(checker.uri).forget()
            checker.edited(0)
        self.history.forget()
        self._server.forecasts.forget()
        self._last = None
        self.refresh()
        self.tell()

    async def restart_workers(self) -> None:
        """End all runs, and start new processes for the next."""
        self.cancel(None)
        for uri in self._following.documents:
            self._following.end(uri)
        await self.service.restart()

    def saved(self, uri: str) -> None:
        """Run what is pinned, and depends on the saved file, again."""
        path = path_of(uri)
        self._run_again({path} if path else set(), uri)

    def files_changed(self, changed: AbstractSet[Path], *, new: bool) -> None:
        """Drop what depended on files that changed outside of the editor, and run what of it is pinned again.

        A text in the editor counts before the disk's. A ``new`` file may be what an import means from now on.
        """
        paths = changed - self._server.session.texts().keys()
        if paths:
            self._outdate(paths)
            self._run_again(paths)
        if paths and new:
            self._server.spawn(self._look_at_imports(), "looking at imports")

    async def _look_at_imports(self) -> None:
        """Treat as changed what is imported now and was not when a target was run."""
        session = self._server.session
        for checker in session.checkers:
            path = session.file_of(checker.uri)
            root, buffers = session.settings.root_of(path), session.texts()
            for outcome in list(self.memory(checker.uri).outcomes.values()):
                imports = await self._in_thread(imported_files, outcome.source, path, root, buffers)
                if not imports <= outcome.imports and self.memory(checker.uri).outdate({outcome.qualname}):
                    checker.edited(0)
                    self._run_pinned(checker, {outcome.qualname})

    def _run_again(self, paths: AbstractSet[Path], uri: str | None = None) -> None:
        for run in self._running.values():
            run.saved |= paths
        for checker in self._server.session.checkers:
            own = uri is not None and unquote(checker.uri) == unquote(uri)
            outcomes = self.memory(checker.uri).outcomes
            importers = {name for name, outcome in outcomes.items() if outcome.imports & paths}
            self._run_pinned(checker, self.pinned(checker.uri) if own else importers)

    def _run_pinned(self, checker: Checker, names: AbstractSet[str | None]) -> None:
        personal = self._server.session.resolve(checker.uri).personal
        pinned = set(self.pinned(checker.uri) & names)
        if pinned and personal.trusted and personal.dry_run_on_save:
            self._start_pinned(checker, pinned)

    def _start_pinned(self, checker: Checker, names: set[str | None]) -> None:
        how = Conditions(launch=self._launches.get(self.key(checker.uri)))
        run = Running(next(self._ids), checker, "what is pinned", self._named(*names), how, asked=False, names=names)
        self._start(run)

    def changed(self, uri: str) -> None:
        """Drop what depended on another text of a document, in the documents that import it."""
        path = path_of(uri)
        if path:
            self._outdate({path})

    def replaced(self, uri: str, text: Source) -> None:
        """Drop what depended on a file where an editor's text takes its place or no longer does."""
        path = path_of(uri)
        if path and not _is_on_disk(path, text):
            self._outdate({path})

    def _outdate(self, paths: AbstractSet[Path]) -> None:
        for run in self._running.values():
            run.edited |= paths
        for checker in self._server.session.checkers:
            if self.memory(checker.uri).outdate_importers(paths):
                checker.edited(0)
        self._server.forecasts.outdate(paths)

    def closed(self, checker: Checker) -> None:
        """Forget a document."""
        if checker.module is not None:
            self.replaced(checker.uri, checker.module.source)
        self._following.end(checker.uri)
        for run in [run for run in self._running.values() if run.checker is checker]:
            run.cancel()
        self._memories.pop(unquote(checker.uri), None)
        self._pins.pop(unquote(checker.uri), None)
        self._launches.pop(unquote(checker.uri), None)

    def settings_changed(self) -> None:
        """End what is no longer allowed, and the workers of an interpreter that is no longer the one."""
        for run in list(self._running.values()):
            if not self.trusts(run.checker.uri):
                run.cancel()
        for uri in [uri for uri in self._following.documents if not self.trusts(uri)]:
            self._following.end(uri)
        before = dict(self._workers)
        self._note_workers()
        if any(self._workers.get(uri, kind) != kind for uri, kind in before.items()):
            self._server.spawn(self.restart_workers(), "restarting the workers")
        self.refresh()
        self.tell()

    def _note_workers(self) -> None:
        resolved = {c.uri: self._server.session.resolve(c.uri).personal for c in self._server.session.checkers}
        self._workers = {uri: (personal.interpreter, personal.launcher) for uri, personal in resolved.items()}

    def _start(self, run: Running) -> None:
        for other in [other for other in self._running.values() if replaces(run, other)]:
            other.cancel()
        self._running[run.run_id] = run
        run.task = self._server.spawn(self._serve(run), f"the dry run of {run.label}")
        run.task.add_done_callback(lambda _: self._ended(run))

    def _ended(self, run: Running) -> None:
        self._running.pop(run.run_id, None)
        if run.task is not None and run.task.cancelled() and run.how.forecast is None:
            run.last = {"runId": run.run_id, "target": run.label, "outcome": "cancelled", "text": "cancelled"}
        self._last = run.last or self._last  # another one may have had the last word
        self.refresh()
        self.tell()

    async def _serve(self, run: Running) -> None:
        progress = Progress(self._server, run.title, run.cancel)
        try:
            self.tell()
            source = self._server.session.take(run.checker.uri).source
            await self._server.session.ask_settings(run.checker.uri)
            self._note_workers()
            targets = await self._chosen(run, source)
            run.names |= {target.qualname for target in targets}
            run.phases = {target.qualname: QUEUED for target in targets}
            if run.how.forecast is None:
                self._following.end(run.checker.uri, run.names)
            (self.refresh if run.asked else self._refreshing.phases)()
            for target in targets:
                await self._run_target(run, source, target, progress)
                run.phases.pop(target.qualname, None)
        finally:
            progress.close()

    async def _chosen(self, run: Running, source: Source) -> Sequence[Target]:
        try:
            targets = await self._in_thread(run.choose, source)
        except SourceError as error:
            self._explain(run, "syntax", f"drygrad cannot run {run.label}: {error.message}")
            return []
        if not targets:
            self._explain(run, "no target", f"drygrad finds nothing to run: {run.label}")
        return targets

    async def _run_target(self, run: Running, source: Source, target: Target, progress: Progress) -> None:
        uri = run.checker.uri
        name = target.qualname or "the script"
        path = self._server.session.file_of(uri)
        run.edited, run.saved = set(), set()
        how = settings_of(self._server.session, run.checker.uri, path, run.how.device, run.how.launch)
        imports = await self._in_thread(imported_files, source, path, how.root, how.buffers)
        buffers = {known: text for known, text in how.buffers.items() if known in imports}
        how = replace(how, buffers=buffers, inputs=run.how.inputs)

        def on_phase(phase: str) -> None:
            words = run.phases[target.qualname] = phase_words(phase)
            progress.report(words if name == run.label else f"{name}: {words}")
            self._refreshing.phases()
            self.tell()

        on_phase("starting")
        if run.how.forecast is not None:
            await self._server.forecasts.make(run, source, target, how, imports, on_phase)
            return
        seen = tuple(await self.service.dry_run(source, path, target, how, on_phase))
        if run.checker.closed or (len(run.names) > 1 and _has_no_inputs(seen, target)):
            return
        shapes = tuple(shape for one in seen for shape in one.result.shapes)
        files = imports.union(*(one.files for one in seen))
        outcome = Outcome(target.qualname, source, seen, shapes, files, stale=bool(files & run.edited))
        self._keep(run, outcome)
        run.checker.edited(0)
        await run.checker.settled()
        self.refresh()
        if not outcome.stale:
            self._following.start(run.checker, run.run_id, outcome, how)
        elif run.asked and files & run.saved:
            self._run_pinned(run.checker, {target.qualname})

    def report_again(self, uri: str, run_id: str, before: Sequence[Seen], outcome: Outcome) -> None:
        """Let the report of a run, for panels, say what is known of it by now."""
        text, target = words_of(outcome.seen), (self.key(uri), outcome.qualname)
        self.history.tell_again(run_id, target, text, before, outcome.seen)
        if self._last is not None and self._last["runId"] == run_id:
            text = text if self._last["target"] == outcome.qualname else self._last["text"]
            self._last = {**self._last, "text": text, "changes": self._last.get("changes", 0) + 1}
            self.tell()

    def _keep(self, run: Running, outcome: Outcome) -> None:
        words = words_of(outcome.seen)
        log.info("%s of %s: %s", run.run_id, outcome.qualname or "the script", words)
        self.memory(run.checker.uri).keep(outcome)
        if run.asked:
            self._pins.setdefault(self.key(run.checker.uri), set()).add(outcome.qualname)
            self._say_why(run, outcome, words)
        uri = run.checker.uri
        self.history.add(run.run_id, uri, (self.key(uri), outcome.qualname), words, outcome.seen)
        last = outcome.seen[-1].result if outcome.seen else None
        self._last = run.last = {
            "runId": run.run_id,
            "uri": uri,
            "target": outcome.qualname,
            "asked": run.asked and len(run.names) == 1,
            "outcome": last.outcome if last else "no-inputs",
            "text": words,
            "device": last.device if last else None,
        }

    def _say_why(self, run: Running, outcome: Outcome, words: str) -> None:
        """Tell a user who has asked for one run, and got nothing of it, why that is."""
        kinds = {seen.result.outcome for seen in outcome.seen}
        if kinds <= {"no-inputs", "error", "unsupported"} and len(run.names) == 1:
            findings = [finding.message for seen in outcome.seen for finding in seen.findings]
            self._explain(run, "-".join(sorted(kinds)) or "no-inputs", findings[0] if findings else words)

    def _explain(self, run: Running, kind: str, text: str) -> None:
        log.info("%s: %s", run.run_id, text)
        if run.asked:
            self._server.show_rarely(kind, lsp.MessageType.Warning, text)

    def report(self, run_id: str) -> dict[str, Any] | None:
        """Return what a run has found so far, for panels; None for a run that is not known."""
        runs = self.history.reports(run_id)
        if run_id not in self._running and runs is None:
            return None
        return {"runId": run_id, "running": run_id in self._running, "runs": runs or []}

    def results(self, uri: str | None, qualname: str | None) -> dict[str, Any] | None:
        """Return the runs of a target, or (no URI) of the one that was run last, for panels; None where none was."""
        target = (self.key(uri), qualname) if uri is not None else self.history.newest()
        if target is None:
            return None
        last = self.history.last(target)
        own = {"uri": last.uri if last else uri, "qualname": target[1], "entries": self.history.of(target)}
        return {**own, "targets": self.history.targets()}

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._server.session.executor, function, *arguments)

    def refresh(self) -> None:
        """Ask the client to ask for lenses and hints again."""
        self._refreshing.results()

    def tell(self) -> None:
        """Send the status, if it is another than before."""
        state = self.service.state
        status: dict[str, Any] = {
            "worker": {"state": state.name, "why": state.why},
            "device": (self._last or {}).get("device"),
            "interpreter": state.interpreter,
            "torch": state.torch,
            "devices": list(state.devices),
            "lastRun": self._last,
            "lastForecast": self._server.forecasts.last,
            "running": list(self._running),
            "phases": [
                {"runId": run.run_id, "uri": run.checker.uri, "target": name, "phase": phase}
                for run in self._running.values()
                for name, phase in run.phases.items()
            ],
        }
        if status != self._told:
            self._told = status
            self._server.protocol.notify(STATUS, status)


def _has_no_inputs(seen: Sequence[Seen], target: Target) -> bool:
    """Say whether nothing gives inputs: of a whole file, that is no news, but a comment above that says nonsense is."""
    in_comment = any(finding.span < target.span for one in seen for finding in one.findings)
    return all(one.result.outcome == "no-inputs" for one in seen) and not in_comment


def _refused(why: str) -> dict[str, str | None]:
    return {"runId": None, "message": why}


def _is_on_disk(path: Path, source: Source) -> bool:
    try:
        return read(path).text == source.text
    except (OSError, SourceError, UnicodeError):
        return False
