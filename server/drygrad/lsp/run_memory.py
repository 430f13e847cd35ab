"""What the dry runs of one document have found, and what of it is true of the present text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from drygrad.dryrun.result import Shape
from drygrad.lsp.checking import Analyzes
from drygrad.lsp.dry_run_service import Seen, Target
from drygrad.lsp.forecasted import Forecasted
from drygrad.lsp.modules import Module, Part
from drygrad.lsp.shifting import Moves
from drygrad.model import Finding
from drygrad.static.engine import Analysis
from drygrad.static.source import Source, SourceError

KEPT = 4
"""So many earlier outcomes of a target are kept: undo brings their findings back without a run."""


@dataclass(frozen=True)
class Outcome:
    """How the last run of a target ended, and what the names of a text were seen to be.

    ``imports`` are the files of the workspace that it depends on, those of its inputs among them. A ``stale`` one is
    not shown: one of them is another.
    """

    qualname: str | None
    source: Source
    seen: tuple[Seen, ...]
    shapes: tuple[Shape, ...] = ()
    imports: frozenset[Path] = frozenset()
    stale: bool = False


@dataclass(frozen=True)
class TargetPlace:
    """A target's name, and the line (from 1) where it is named."""

    qualname: str | None
    line: int


@dataclass(frozen=True)
class View:
    """The outcomes that are true of one version of the text."""

    source: Source
    outcomes: Mapping[str | None, Outcome] = field(default_factory=dict[str | None, Outcome])

    @property
    def seen(self) -> Iterator[Seen]:
        """All runs, those of the latest outcome last."""
        for outcome in self.outcomes.values():
            yield from outcome.seen

    @property
    def shapes(self) -> list[Shape]:
        """All that was seen of values, the latest outcome's last."""
        return [shape for outcome in self.outcomes.values() for shape in outcome.shapes]


@dataclass(frozen=True)
class Sight:
    """What is true of a document, or of one cell of a notebook, whose lines count in the ``module``."""

    view: View
    module: Module
    part: Part

    @property
    def lines(self) -> range:
        """The module's numbers of the part's lines."""
        return self.module.lines_of(self.part.uri)

    def said(self, sentence: str) -> str:
        """Return a sentence about the module's lines for a reader of the part."""
        return self.module.said(sentence, self.part)


class Judges(Protocol):
    """What says of outcomes whether they are true of a text; called in the thread that analyses."""

    def targets(self, source: Source) -> Sequence[Target]:
        """Return what can be run. SourceError where the text cannot be read."""
        ...

    def applied(self, seen: Seen, source: Source) -> Seen | None:
        """Return an outcome as it speaks of another text; None where what was executed is not the same there."""
        ...

    def merge(
        self, static: Sequence[Finding], seen: Sequence[Seen], source: Source, others: Sequence[Finding] = ()
    ) -> tuple[Finding, ...]:
        """Return the findings of a text with what outcomes add to them, and take away."""
        ...


class RunMemory:
    """The outcomes of one document. The event loop adds and drops them, the thread that analyses reads them.

    ``others`` says what runs of other documents have found in this one.
    """

    def __init__(self, service: Judges, others: Callable[[], Sequence[Finding]] = tuple) -> None:
        self._service = service
        self._others = others
        self._outcomes: Mapping[str | None, Outcome] = MappingProxyType({})
        self._earlier: Mapping[str | None, tuple[Outcome, ...]] = MappingProxyType({})
        self.view = View(Source(""))
        self._targets: tuple[Source, Mapping[str | None, Target]] = (self.view.source, {})
        self._places: tuple[Source, tuple[TargetPlace, ...]] = (self.view.source, ())

    @property
    def outcomes(self) -> Mapping[str | None, Outcome]:
        """The last outcome of each target, whether it is true of the present text or not."""
        return self._outcomes

    def keep(self, outcome: Outcome) -> None:
        """Add an outcome, in the place of the target's older one, which is kept for the time its text comes back."""
        older = self._outcomes.get(outcome.qualname)
        if older is not None and older.source.text != outcome.source.text:
            earlier = (older, *self._earlier.get(outcome.qualname, ()))[:KEPT]
            self._earlier = MappingProxyType({**self._earlier, outcome.qualname: earlier})
        others = {name: old for name, old in self._outcomes.items() if name != outcome.qualname}
        self._outcomes = MappingProxyType({**others, outcome.qualname: outcome})

    def complete(self, outcome: Outcome, seen: tuple[Seen, ...]) -> Outcome | None:
        """Let an outcome say more, if it is still there; return what it is then, None where it is not."""
        if self._outcomes.get(outcome.qualname) is not outcome:
            return None
        completed = replace(outcome, seen=seen)
        self._outcomes = MappingProxyType({**self._outcomes, outcome.qualname: completed})
        return completed

    def forget(self) -> None:
        """Drop all outcomes."""
        self._outcomes = MappingProxyType({})
        self._earlier = MappingProxyType({})

    def outdate_importers(self, paths: AbstractSet[Path]) -> bool:
        """Show the outcomes no longer that depend on some files; say whether there were any."""
        return self.outdate({name for name, outcome in self._outcomes.items() if outcome.imports & paths})

    def outdate(self, names: AbstractSet[str | None]) -> bool:
        """Show the outcomes of some targets no longer; say whether there were any."""
        marked = {n: replace(o, stale=True) for n, o in self._outcomes.items() if n in names and not o.stale}
        self._earlier = MappingProxyType({name: o for name, o in self._earlier.items() if name not in marked})
        self._outcomes = MappingProxyType({**self._outcomes, **marked})
        return bool(marked)

    def look(self, analysis: Analysis) -> tuple[Finding, ...]:
        """Set the view of a version, and return its findings, those of both witnesses."""
        source = analysis.source
        if analysis.error is not None:
            self.view = self._moved_view(source)
            return analysis.findings
        outcomes = dict(self._true_outcomes(source)) if self._outcomes else {}
        self.view = View(source, outcomes)
        if outcomes:
            self.places(source)
        seen, others = list(self.view.seen), self._others()
        return self._service.merge(analysis.findings, seen, source, others) if seen or others else analysis.findings

    def places(self, source: Source) -> tuple[TargetPlace, ...]:
        """Return what can be run; in a text that does not parse, what is left of it."""
        if self._places[0] is not source:
            self._places = (source, tuple(self._found_places(source)))
        return self._places[1]

    def known_places(self, source: Source) -> tuple[TargetPlace, ...]:
        """Return what can be run, where that is known without a look at the text."""
        return self._places[1] if self._places[0] is source else ()

    def _found_places(self, source: Source) -> Iterator[TargetPlace]:
        try:
            for name, target in self._targets_of(source).items():
                yield TargetPlace(name, target.name_span.start.line)
        except SourceError:
            old, known = self._places
            moves = Moves(old, source)
            yield from (replace(place, line=line) for place in known if (line := moves.line(place.line)))

    def _targets_of(self, source: Source) -> Mapping[str | None, Target]:
        if self._targets[0] is not source:
            self._targets = (source, {target.qualname: target for target in self._service.targets(source)})
        return self._targets[1]

    def _true_outcomes(self, source: Source) -> Iterator[tuple[str | None, Outcome]]:
        targets = self._targets_of(source)
        for name, latest in self._outcomes.items():
            known = (latest, *self._earlier.get(name, ()))
            present = (self._present(outcome, source, targets) for outcome in known if not outcome.stale)
            found = next((outcome for outcome in present if outcome is not None), None)
            if found is not None:
                yield name, found

    def _present(self, outcome: Outcome, source: Source, targets: Mapping[str | None, Target]) -> Outcome | None:
        """Return an outcome as it speaks of a text; None where it says nothing of it."""
        if outcome.source.text == source.text:
            return outcome
        if outcome.qualname not in targets:
            return None
        applied = [self._service.applied(seen, source) for seen in outcome.seen]
        present = tuple(seen for seen in applied if seen is not None)
        return replace(_moved(outcome, source), seen=present) if present else None

    def _moved_view(self, source: Source) -> View:
        """Return what is left of the last view in a text that does not parse."""
        return View(source, {name: _moved(outcome, source) for name, outcome in self.view.outcomes.items()})


def _moved(outcome: Outcome, source: Source) -> Outcome:
    """Return an outcome with its shapes at the lines of another text; what has no line there is left out."""
    moves = Moves(outcome.source, source)
    shapes = (replace(shape, line=line) for shape in outcome.shapes if (line := moves.line(shape.line)))
    seen = tuple(one.moved(moves) if isinstance(one, Forecasted) else one for one in outcome.seen)
    return replace(outcome, source=source, seen=seen, shapes=tuple(shapes))


class WithRuns:
    """Checks as another analyzer does, and adds what runs have found."""

    def __init__(self, analyzer: Analyzes, memory: RunMemory) -> None:
        self._analyzer, self._memory = analyzer, memory
        self.known, self.links = analyzer.known, analyzer.links

    def check(self, source: Source) -> Analysis:
        """Return the findings of a version."""
        self._analyzer.known, self._analyzer.links = self.known, self.links
        analysis = self._analyzer.check(source)
        return replace(analysis, findings=self._memory.look(analysis))
