"""The forecasts of the open documents: made when a user asks, shown where they are true, told to panels."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from drygrad.lsp.checking import Analyzes, Checker
from drygrad.lsp.dry_run_service import DryRunService, RunSettings, Seen, Target
from drygrad.lsp.forecasted import Forecasted
from drygrad.lsp.run_memory import Outcome, RunMemory, Sight, WithRuns
from drygrad.lsp.running import Running
from drygrad.lsp.settings import path_of
from drygrad.model import Finding
from drygrad.static.source import Source

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger(__name__)

KEPT = 40
"""So many forecasts are kept for panels."""


@dataclass(frozen=True)
class _Judges:
    """Says of forecasts what a service says of runs."""

    service: DryRunService

    def targets(self, source: Source) -> Sequence[Target]:
        return self.service.targets(source)

    def applied(self, seen: Seen, source: Source) -> Seen | None:
        return self.service.forecast_applied(seen, source) if isinstance(seen, Forecasted) else None

    def merge(
        self, static: Sequence[Finding], seen: Sequence[Seen], source: Source, others: Sequence[Finding] = ()
    ) -> tuple[Finding, ...]:
        """Add what forecasts have found: a run's own finding of the same fault on the same line says more."""
        del source, others
        known = {(finding.code, finding.span.start.line) for finding in static}
        found = [finding for one in seen for finding in one.findings]
        more = [finding for finding in found if (finding.code, finding.span.start.line) not in known]
        return tuple(sorted([*static, *more], key=lambda finding: (finding.span, finding.code)))


@dataclass(frozen=True)
class Entry:
    """The last forecast of a target, for panels; ``at`` is when it was made, in seconds since 1970."""

    run_id: str
    uri: str
    qualname: str | None
    forecast: Forecasted
    at: float = field(default_factory=time.time)

    def as_json(self) -> dict[str, Any]:
        """Return it as panels get it."""
        made = self.forecast
        return {
            "uri": self.uri,
            "qualname": self.qualname,
            "runId": self.run_id,
            "at": self.at,
            "text": made.words,
            "forecast": dict(made.report),
        }


class Forecasts:
    """Knows the forecasts. The runs that make them are among the other runs, and end as these do."""

    def __init__(self, server: DrygradServer, service: DryRunService) -> None:
        self._server, self._service = server, service
        self._memories: dict[str, RunMemory] = {}
        self._entries: dict[tuple[str, str | None], Entry] = {}
        self._count = 0
        amend = server.session.amend
        server.session.amend = lambda uri, analyzer: self._amend(uri, amend(uri, analyzer))
        server.session.closing.append(self._closed)

    def _amend(self, uri: str, analyzer: Analyzes) -> Analyzes:
        return WithRuns(analyzer, self.memory(uri))

    def memory(self, uri: str) -> RunMemory:
        """Return what is known of a document."""
        return self._memories.setdefault(self._server.dry_runs.key(uri), RunMemory(_Judges(self._service)))

    async def make(
        self,
        run: Running,
        source: Source,
        target: Target,
        how: RunSettings,
        imports: AbstractSet[Path],
        on_phase: Callable[[str], None],
    ) -> None:
        """Make the forecast that a run asks for; changes are traced when what is known before is shown."""
        assert run.how.forecast is not None
        how = replace(how, gpu=run.how.forecast.gpu or how.gpu)
        path = self._server.session.file_of(run.checker.uri)
        made = await self._service.forecast(source, path, target, how, on_phase)
        await self._keep(run, source, target, made, imports)
        if made.told is None:
            self._server.show_rarely("no forecast", lsp.MessageType.Warning, made.words)
        elif run.how.forecast.what_if:
            made = await self._service.what_if(made, how, on_phase)
            await self._keep(run, source, target, made, imports)

    async def _keep(
        self, run: Running, source: Source, target: Target, made: Forecasted, imports: AbstractSet[Path]
    ) -> None:
        checker, name = run.checker, target.qualname
        if checker.closed:
            return
        files = frozenset(imports | made.files)
        self.memory(checker.uri).keep(Outcome(name, source, (made,), (), files, stale=bool(files & run.edited)))
        key = (self._server.dry_runs.key(checker.uri), name)
        self._entries.pop(key, None)
        self._entries[key] = Entry(run.run_id, checker.uri, name, made)
        while len(self._entries) > KEPT:
            self._entries.pop(next(iter(self._entries)))
        self._count += 1
        log.info("%s of %s: %s", run.run_id, name or "the script", made.words)
        checker.edited(0)
        await checker.settled()
        self._server.dry_runs.refresh()
        self._server.dry_runs.tell()

    @property
    def last(self) -> dict[str, Any] | None:
        """Return which forecast was made last, for the status; ``changes`` counts what was told of all."""
        entry = self.entry(None, None)
        if entry is None:
            return None
        return {
            "runId": entry.run_id,
            "uri": entry.uri,
            "target": entry.qualname,
            "text": entry.forecast.words,
            "changes": self._count,
        }

    def entry(self, uri: str | None, qualname: str | None) -> Entry | None:
        """Return the last forecast of a target, or (no URI) the one that was made last."""
        if uri is None:
            return next(reversed(self._entries.values()), None)
        return self._entries.get((self._server.dry_runs.key(uri), qualname))

    def true_of(self, uri: str) -> list[Forecasted]:
        """Return the forecasts that hold for the text as it was checked last: its own, and those that run its code."""
        own, path = self.memory(uri), path_of(uri)
        others = (memory for memory in self._memories.values() if memory is not own)
        return [*(one for memory in others for one in _fresh(memory) if path and one.held(path)), *_fresh(own)]

    def present(self, uri: str, qualname: str | None) -> Forecasted | None:
        """Return the forecast of a target that is true of the text as it was checked last."""
        outcome = self.memory(uri).view.outcomes.get(qualname)
        seen = outcome.seen if outcome else ()
        return next((one for one in seen if isinstance(one, Forecasted)), None)

    def sight(self, uri: str) -> Sight | None:
        """Return the text as it was checked last; None where that is not the present one."""
        checker, document = self._server.session.checker_of(uri), self._server.documents.find(uri)
        module = checker.module if checker else None
        part = module.by_uri.get(document.uri) if module and document else None
        return Sight(self.memory(uri).view, module, part) if module and part else None

    def outdate(self, paths: AbstractSet[Path]) -> None:
        """Show the forecasts no longer that depend on some files."""
        for checker in self._server.session.checkers:
            if self.memory(checker.uri).outdate_importers(paths):
                checker.edited(0)

    def forget(self) -> None:
        """Drop all."""
        for memory in self._memories.values():
            memory.forget()
        self._entries.clear()

    def _closed(self, checker: Checker) -> None:
        self._memories.pop(self._server.dry_runs.key(checker.uri), None)


def _fresh(memory: RunMemory) -> Iterator[Forecasted]:
    """Yield what is true of a document's text, and of the files that it depends on."""
    for name, outcome in memory.view.outcomes.items():
        latest = memory.outcomes.get(name)
        if latest is not None and not latest.stale:
            yield from (one for one in outcome.seen if isinstance(one, Forecasted) and one.told is not None)
