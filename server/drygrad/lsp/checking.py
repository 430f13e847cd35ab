"""Keeps what is shown of a module in step with its text: waits, checks in the background, drops what is outdated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from drygrad.lsp.modules import Module, Part
from drygrad.lsp.shifting import shifted
from drygrad.model import Finding
from drygrad.static.engine import Analysis
from drygrad.static.facts.linked import Links
from drygrad.static.source import Source, SourceError

log = logging.getLogger(__name__)


class Analyzes(Protocol):
    """What checks one document, version after version; ``known`` and ``links`` tell it what imported names are."""

    known: Mapping[str, tuple[str, ...]]
    links: Links | None

    def check(self, source: Source) -> Analysis:
        """Return the findings of a version."""
        ...


@dataclass(frozen=True, eq=False)
class Shown:
    """What is known of one part: its findings, or those kept from an older text (``fresh`` is then false)."""

    part: Part
    findings: tuple[Finding, ...]
    fresh: bool = True
    error: SourceError | None = None


class Host(Protocol):
    """What a checker asks of the session."""

    executor: Executor

    def take(self, uri: str) -> Module:
        """Return the module as it stands."""
        ...

    def accept(self, checker: Checker) -> None:
        """Hear of a new result."""
        ...

    def failed(self, error: Exception) -> None:
        """Hear of a bug in the analysis."""
        ...


MakeAnalyzer: TypeAlias = Callable[[], Analyzes | None]
"""Makes what checks a document, in the thread that does; None where it is not to be checked."""


class Checker:
    """The findings of one open document or notebook."""

    def __init__(self, uri: str, host: Host, make_analyzer: MakeAnalyzer) -> None:
        self.uri = uri
        self._host = host
        self.shown: dict[str, Shown] = {}
        self.module: Module | None = None
        self.closed = False
        self.questions: frozenset[str] = frozenset()
        self.generation = 0
        self.checked = 0
        self._good: dict[str, Shown] = {}
        self._make_analyzer = make_analyzer
        self._known: Mapping[str, tuple[str, ...]] = {}
        self._links: Links | None = None
        self._analyzer: Analyzes | None = None
        self._has_analyzer = False
        self._timer: asyncio.Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @property
    def is_fresh(self) -> bool:
        """Whether what is shown belongs to the present text and settings."""
        return self.checked == self.generation

    def edited(self, delay: float) -> None:
        """Note that the text has changed, and check it after so many seconds without another change."""
        self.generation += 1
        self._stop_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(delay, self._start) if delay > 0 else loop.call_soon(self._start)

    def use(self, make_analyzer: MakeAnalyzer) -> None:
        """Check with another analyzer from now on."""
        self._make_analyzer, self._has_analyzer = make_analyzer, False
        self.edited(0)

    def learn(self, known: Mapping[str, tuple[str, ...]], links: Links | None = None) -> None:
        """Take an answer to the ``questions`` of the last result, and check again if it says something new."""
        changed = any(self._known.get(name, ()) != answer for name, answer in known.items())
        if links is not None and (links.leads or self._links is not None):
            changed = changed or self._links is None or self._links.version != links.version
            self._links = links
        self._known = {**self._known, **known}
        if changed:
            self.edited(0)

    def close(self) -> None:
        """Stop; nothing is shown any more."""
        self.closed = True
        self._stop_timer()
        self._tell()

    async def fresh(self) -> None:
        """Wait until the present text is checked, without the wait for further changes."""
        while not self.is_fresh and not self.closed:
            self._stop_timer()
            self._start()
            if self._task is not None:
                await asyncio.shield(self._task)

    async def settled(self) -> None:
        """Wait until the present text is checked, after the wait for further changes."""
        while not self.is_fresh and not self.closed:
            await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self) -> None:
        self._timer = None
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._check())

    async def _check(self) -> None:
        while not (self.is_fresh or self.closed or self._timer is not None):
            generation, module = self.generation, self._host.take(self.uri)
            analysis = await self._analysis(module)
            if generation == self.generation and not self.closed:
                self.checked = generation
                self._show(module, analysis)

    async def _analysis(self, module: Module) -> Analysis:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._host.executor, self._analyse, module)
        except Exception as error:  # a bug in a rule must not end the checks
            log.exception("could not check %s", self.uri)
            self._host.failed(error)
            return Analysis(module.source, error=SourceError(f"drygrad could not check this file: {error!r}"))

    def _analyse(self, module: Module) -> Analysis:
        if not self._has_analyzer:
            self._analyzer, self._has_analyzer = self._make_analyzer(), True
        if self._analyzer is None:
            return Analysis(module.source)
        self._analyzer.known, self._analyzer.links = self._known, self._links
        return self._analyzer.check(module.source)

    def _show(self, module: Module, analysis: Analysis) -> None:
        found = module.localised(analysis.findings)
        self.module = module
        self.questions = analysis.questions
        self.shown = {
            part.uri: self._kept(part, analysis.error)
            if analysis.error or part.uri in module.left_out
            else Shown(part, tuple(found[part.uri]))
            for part in module.parts
        }
        self._good = {uri: shown if shown.fresh else self._good.get(uri, shown) for uri, shown in self.shown.items()}
        self._host.accept(self)
        self._tell()

    def _kept(self, part: Part, error: SourceError | None) -> Shown:
        """Return the last good findings of a part that now does not parse, moved with its lines."""
        good = self._good.get(part.uri)
        findings = shifted(good.findings, good.part.source, part.source) if good else []
        return Shown(part, tuple(findings), fresh=False, error=error)
