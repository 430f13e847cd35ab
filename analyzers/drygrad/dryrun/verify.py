"""Tries fixes: each is applied to a copy of the text, the same run is made again, and the two are compared.

What holds comes first, the safe ones before the others. A rule's own fix that was tried in vain stays, last and marked;
a fix that only a run could think of, and that did not hold, is dropped. One that no run could tell of, or for which the
time did not suffice, is offered, marked, where there is no other.
"""

from __future__ import annotations

import ast
import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from drygrad.dryrun.comparing import Comparison
from drygrad.dryrun.findings import USER_ERROR, findings, findings_elsewhere, statement_of
from drygrad.dryrun.fixes import Candidates
from drygrad.dryrun.going_on import ROUNDS, Ahead, chosen, later, seen_behind, told, verified
from drygrad.dryrun.inventions import is_of_devices, rests_on_inputs, was_found, written
from drygrad.dryrun.judging import GRAVE, Seen, Verdict, gone, ran, verdict
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.merge import Record, seen_in
from drygrad.dryrun.other_files import other_text
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.reaching import further, unreached
from drygrad.dryrun.result import Result
from drygrad.dryrun.trial import Trial, compared, with_inputs
from drygrad.model import Edit, Finding, Fix, Span
from drygrad.settings import Settings
from drygrad.static.engine import Analyzer

MOST = 8
"""So many fixes of one finding are tried, two at a time."""
ENOUGH = 2
"""So many fixes that hold are offered of one finding; one that is safe is enough."""

_CUT_SHORT = "not all fixes were tried: the limit is"

Run = Callable[[Plan], Awaitable[Result]]

_log = logging.getLogger(__name__)


@dataclass
class _Judged:
    """What came of the fixes of one finding; a fix without a verdict was not tried, or no run could tell."""

    finding: Finding
    candidates: tuple[Fix, ...]
    verdicts: dict[tuple[Edit, ...], Fix] = field(default_factory=dict[tuple[Edit, ...], Fix])
    inherited: list[Fix] = field(default_factory=list[Fix])

    @property
    def verified(self) -> list[Fix]:
        """The fixes that hold, the safe ones first."""
        held = [fix for fix in self.verdicts.values() if fix.verified] or self.inherited
        return sorted(held, key=lambda fix: fix.safety != "safe")

    @property
    def enough(self) -> bool:
        return len(self.verified) >= ENOUGH or any(fix.safety == "safe" for fix in self.verified)

    def fixes(self) -> tuple[Fix, ...]:
        """Return what to offer."""
        verified = self.verified
        held = {fix.edits for fix in verified}
        own = [self.verdicts.get(fix.edits, fix) for fix in self.finding.fixes if fix.edits not in held]
        untold = [fix for fix in self.verdicts.values() if fix.verified is None] if self.verdicts else self.candidates
        undecided = () if verified or own else untold[:1]
        return (*verified, *sorted(own, key=lambda fix: fix.verified is False), *undecided)


async def verify(record: Record, static: Sequence[Finding], run: Run, settings: Settings, budget: float) -> Record:
    """Return the record with its fixes tried. ``static`` is what a check of the same text says; ``budget`` in seconds.

    Errors and warnings come first. What was not tried in time has no verdict. Cancelling the caller cancels the runs.
    """
    end = asyncio.get_running_loop().time() + budget
    record, behind = await _verified(record, static, run, settings, end, ROUNDS)
    record = told(record, behind)
    return _cut_short(record, budget) if budget > 0 and asyncio.get_running_loop().time() >= end else record


def _cut_short(record: Record, budget: float) -> Record:
    """Return a record that says so where the time did not suffice for the fixes of what was seen."""
    seen = (finding for finding in (*record.findings, *record.elsewhere) if finding.witness == "dry-run")
    if not any(fix.verified is None for finding in seen for fix in finding.fixes):
        return record
    note = f"{_CUT_SHORT} {budget:g} s; a longer `verify-time` allows more"
    return replace(record, result=replace(record.result, notes=(*record.result.notes, note)))


async def _verified(
    record: Record, static: Sequence[Finding], run: Run, settings: Settings, end: float, rounds: int
) -> tuple[Record, list[Finding]]:
    """Return the record with its fixes tried, and what comes behind the fault that has ended the run."""
    trials = _Trials(record, static, run, settings)
    judged, missed = await _tried(trials, end)
    judged += await _tried_further(record, static, missed, run, settings, end) if missed else []
    record = _with_fixes(record, judged) if judged else record
    for path in sorted({str(finding.path) for finding in record.elsewhere}):
        record = await _tried_in(Path(path), record, run, settings, end)
    way = await in_turn(chosen, record, trials.ways) if rounds else None
    if way is None:
        return record, []
    after = await in_turn(later, record, way, settings)
    checked = (await in_turn(Analyzer(settings).check, after.plan.source)).findings
    after, behind = await _verified(after, checked, run, settings, end, rounds - 1)
    found = replace(after, findings=(*after.findings, *(f for f in behind if f.path is None)))
    found = replace(found, elsewhere=(*after.elsewhere, *(f for f in behind if f.path is not None)))
    return verified(record, way, after), seen_behind(record, way, found)


async def _tried_in(path: Path, record: Record, run: Run, settings: Settings, end: float) -> Record:
    """Return a record with the fixes tried of its findings in another file, whose text they change."""
    source = await in_turn(other_text, path, record.plan)
    if source is None:
        return record
    view = seen_from(record, replace(record.plan, source=source, path=path, steps=None, within=record.plan))
    static = (await in_turn(Analyzer(settings).check, source)).findings
    seen = await in_turn(Seen.of, view, static)
    wanted = {(finding.code, finding.span) for finding in seen.findings if finding.run and finding.path is None}
    judged, _ = await _tried(_Trials(view, static, run, settings, wanted), end)
    fixed = iter(_with_fixes(view, judged).findings)
    elsewhere = (replace(f, fixes=next(fixed).fixes) if f.path == str(path) else f for f in record.elsewhere)
    return replace(record, elsewhere=tuple(elsewhere))


def seen_from(record: Record, plan: Plan) -> Record:
    """Return a record as one of another file's, of which a plan is made: its own findings are those of that file."""
    path, home = str(plan.path), str(record.plan.path)
    own = tuple(seen_in(finding, path) for finding in record.elsewhere if finding.path == path)
    others = [finding for finding in record.elsewhere if finding.path != path]
    others += [replace(finding, path=home) for finding in record.findings]
    blocks = (e["lines"] for e in record.result.data.get("blocks_elsewhere", ()) if e["path"] == path)
    result = replace(record.result, blocks=frozenset(line for lines in blocks for line in lines))
    return Record(record.run_id, plan, result, own, elsewhere=tuple(others))


async def _tried_further(
    record: Record, static: Sequence[Finding], missed: Sequence[Finding], run: Run, settings: Settings, end: float
) -> list[_Judged]:
    """Try the fixes of findings that a run did not reach in one that goes further; what else that sees is no claim."""
    plan = await in_turn(further, record)
    left = end - asyncio.get_running_loop().time()
    if plan is None or left <= 0:
        return []
    try:
        result = await asyncio.wait_for(run(plan), left)
    except asyncio.TimeoutError:
        return []
    seen = await in_turn(findings, result, plan, plan.source, settings)
    texts = {(finding.code, finding.span): finding for finding in missed}
    beyond = Record(record.run_id, plan, result, tuple(seen))
    tried, _ = await _tried(_Trials(beyond, static, run, settings, {*texts}), end)
    return [replace(each, finding=texts[each.finding.code, each.finding.span]) for each in tried]


async def _tried(trials: _Trials, end: float) -> tuple[list[_Judged], list[Finding]]:
    """Try the fixes of a run's findings until the time is up; return these, and the findings that it did not reach."""
    before, judged = await in_turn(trials.prepare)
    before = await trials.compared(before, end) if any(each.candidates for each in judged) else before
    tasks: list[asyncio.Future[None]] = []
    try:
        for grave in (True, False):
            wave = [each for each in judged if (each.finding.severity in GRAVE) is grave]
            begun = [asyncio.ensure_future(trials.judge(each, before)) for each in wave]
            tasks += begun
            if begun:
                await asyncio.wait(begun, timeout=max(0.0, end - asyncio.get_running_loop().time()))
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        await trials.end()
    for error in ended:
        if isinstance(error, Exception):
            _log.error("a fix could not be tried", exc_info=error)
    trials.share(judged)
    return judged, await in_turn(unreached, [f for f in before.findings if f.path is None], before.record)


class _Trials:
    """The trials of one run's findings, ``only`` some by code and place; a text that several fixes make is run once."""

    def __init__(
        self,
        record: Record,
        static: Sequence[Finding],
        run: Run,
        settings: Settings,
        only: Container[tuple[str, Span]] | None = None,
    ) -> None:
        self._record, self._static, self._run, self._settings, self._only = record, static, run, settings, only
        self._seen: dict[str, asyncio.Task[Seen]] = {}
        self._held: list[tuple[Fix, list[Finding]]] = []
        self.ways: list[Ahead] = []
        """Where the run goes on behind a fault."""

    def prepare(self) -> tuple[Seen, list[_Judged]]:
        """Return what is known without fixes, and the findings whose fixes are to be tried, with the candidates."""
        before = Seen.of(self._record, self._static)
        think = Candidates(self._record, self._static, self._settings)
        only = self._only
        here = [finding for finding in before.findings if finding.path is None]
        told = [f for f in here if only is None or (f.code, f.span) in only]
        telling = [finding for finding in told if _can_tell(finding, self._record)]
        seen_first = sorted(telling, key=lambda finding: finding.witness == "static")
        return before, [_Judged(finding, tuple(think.of(finding))) for finding in seen_first]

    async def compared(self, before: Seen, end: float) -> Seen:
        """Run the text as it is once more, for what repaired ones are compared by; as it was where time is up."""
        if self._record.result.outcome == "deadline":  # it would take the time again, and leave as little
            return replace(before, comparison=Comparison.of_none())
        plan = await in_turn(compared, self._record.plan, self._record.result)
        left = end - asyncio.get_running_loop().time()
        try:
            result = await asyncio.wait_for(self._run(plan), max(0.0, left))
        except asyncio.TimeoutError:
            return before
        return replace(before, comparison=Comparison.read(result))

    async def judge(self, judged: _Judged, before: Seen) -> None:
        """Try the candidates of a finding, two at a time, until enough of them hold."""
        candidates = [*judged.candidates[:MOST]]
        while candidates and not judged.enough:
            pair, candidates = candidates[:2], candidates[2:]
            verdicts = await asyncio.gather(*(self._try(fix, judged, before) for fix in pair))
            for fix, said in zip(pair, verdicts, strict=True):
                _log.debug("%s %s: %s", judged.finding.code, fix.title, said.why or "verified")
                judged.verdicts[fix.edits] = replace(fix, verified=said.holds)

    async def _try(self, fix: Fix, judged: _Judged, before: Seen) -> Verdict:
        trial = await in_turn(Trial.of, self._record.plan, self._record.result, fix)
        if trial is None:
            return Verdict(False, "its text cannot be run as before")
        text = trial.source.text
        if text not in self._seen:
            self._seen[text] = asyncio.ensure_future(self._look(trial))
        after = await self._seen[text]
        # another fix may have made the same text: what ran are the statements of its tree
        trial = replace(trial, source=after.record.plan.source, plan=after.record.plan)
        judgement = await in_turn(verdict, trial, before, after, judged.finding)
        if judgement.holds or judgement.goes_on:
            self.ways.append(Ahead(judged.finding, fix, trial, after, judgement.holds))
        if after.record.result.outcome == "failed" and was_found(self._record.result):
            return await self._try_with_others(fix, judged) or judgement
        if judgement.holds:
            self._held.append((fix, gone(trial, before, after)))
        return judgement

    async def _try_with_others(self, fix: Fix, judged: _Judged) -> Verdict | None:
        """Judge a fix with inputs found for the repaired text, where these show the same fault in the text before.

        Those that were invented for the text before may have fitted nothing but the fault.
        """
        trial = await in_turn(Trial.of, self._record.plan, self._record.result, fix, anew=True)
        after = await self._look(trial) if trial is not None else None
        if trial is None or after is None or not was_found(after.record.result):
            return None
        plan = await in_turn(with_inputs, self._record.plan, written(after.record.result))
        before = await self._look_before(plan) if plan is not None else None
        if before is None or not (before.record.result.outcome == "passed" or is_of_devices(before.record.result)):
            return None
        place = judged.finding.code, judged.finding.span
        same = next((f for f in before.findings if (f.code, f.span) == place and _can_tell(f, before.record)), None)
        return None if same is None else await in_turn(verdict, trial, before, after, same)

    async def _look_before(self, plan: Plan) -> Seen:
        """Run the text as it is, with other inputs."""
        result = await self._run(plan)
        return await in_turn(self._seen_in, plan, result, self._static)

    async def _look(self, trial: Trial) -> Seen:
        """Run a repaired text, and check it."""
        result = await self._run(trial.plan)
        return await in_turn(self._judge_text, trial, result)

    def _judge_text(self, trial: Trial, result: Result) -> Seen:
        analyzer = Analyzer(self._settings)
        return self._seen_in(trial.plan, result, analyzer.check(trial.source).findings)

    def _seen_in(self, plan: Plan, result: Result, static: Sequence[Finding]) -> Seen:
        run = plan.executed
        found = findings(result, run, run.source, self._settings)
        elsewhere = findings_elsewhere(result, run, self._settings)
        record = Record("", run, result, tuple(found), elsewhere=tuple(elsewhere))
        return Seen.of(seen_from(record, plan) if plan.within is not None else record, static)

    def share(self, judged: Iterable[_Judged]) -> None:
        """Offer a fix that holds at the findings, too, that came of the same fault and have none of their own."""
        for each in judged:
            if not each.verified:
                held = (fix for fix, vanished in self._held if each.finding in vanished)
                each.inherited = [replace(fix, verified=True) for fix in held][:1]

    async def end(self) -> None:
        """End the runs that are still going on."""
        for task in self._seen.values():
            task.cancel()
        await asyncio.gather(*self._seen.values(), return_exceptions=True)


def _can_tell(finding: Finding, record: Record) -> bool:
    """Say whether a run can tell of a finding's fixes: it has seen the fault, or executed all that makes it one.

    Of a hint only the rule's own fixes are tried, unless it is one for want of what the program does before.
    """
    unprepared = record.plan.partial and rests_on_inputs(finding.code, record.plan, record.result)
    if finding.witness == "dry-run" and (finding.severity != "hint" or unprepared):
        return True
    spans = [finding.span, *(related.span for related in finding.related if related.path is None)]
    statements = [statement_of(record.plan.source, span.start) for span in spans]
    return bool(finding.fixes) and all(isinstance(s, ast.stmt) and ran(s, record) for s in statements)


def _with_fixes(record: Record, judged: Iterable[_Judged]) -> Record:
    """Return the record with the fixes of its own findings, and of those static ones that it can tell of."""
    fixes = {(each.finding.code, each.finding.span): each.fixes() for each in judged}

    def fixed(finding: Finding, place: Finding) -> Finding:
        return replace(finding, fixes=fixes.get((place.code, place.span), finding.fixes))

    seen = [each.finding for each in judged]
    own = tuple(fixed(finding, _merged(finding, seen, record)) for finding in record.findings)
    possible = tuple(fixed(finding, finding) for finding in seen if finding.witness == "static")
    return replace(record, findings=own, possible=possible)


def _merged(finding: Finding, seen: Sequence[Finding], record: Record) -> Finding:
    """Return what a run's finding became when it was merged: perhaps with another span, or with the text's words."""
    own = [f for f in seen if f.run == finding.run and finding.code in (f.code, USER_ERROR)]
    statement = statement_of(record.plan.source, finding.span.start)
    alike = [f for f in own if f.message == finding.message]
    alike += [f for f in own if statement_of(record.plan.source, f.span.start) is statement]
    return next(iter(alike or own[:1]), finding)
