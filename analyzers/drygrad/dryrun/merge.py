"""One list of findings from two witnesses: what a run reproduces is confirmed, what it disproves is gone.

Two findings are the same when their code and their innermost statement are the same; what fails in one line and is told
in another is one finding, too. A record of a run speaks of a text as long as what was executed is there unchanged; its
findings move with it.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drygrad.dryrun.costs import NO_COSTS, Costs, weighed
from drygrad.dryrun.findings import USER_ERROR, statement_of
from drygrad.dryrun.inventions import passed_on_by, rests_on_inputs
from drygrad.dryrun.plan import Missing, Plan
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.refuting import denies, outdoes, refutes, truncated
from drygrad.dryrun.result import ErrorInUserCode, Place, Result
from drygrad.dryrun.targets import target_named
from drygrad.dryrun.written_inputs import comment_text
from drygrad.model import SEVERITIES, Edit, Finding, Fix, Position, Related, Span
from drygrad.static.source import Source, SourceError
from drygrad.static.statements import first_line

FAILURE = "it fails here"
FAILURES = frozenset({FAILURE, "backward() fails here", "they broadcast here"})
"""What the worker calls the place of an error that it tells at another line, the one that is to be changed."""
_FAMILY = len("DG1")
_OF_SEVERAL = (False, True, None)
"""The verdicts on a fix: among those of several runs, the first of these stands."""
_OFFERED = (True, None, False)
"""In this order fixes are offered."""


@dataclass(frozen=True)
class Record:
    """A run that has ended: its plan, its result, and its findings at places of the plan's text.

    ``possible`` are static findings of that text whose fixes the run's repetition has tried, ``elsewhere`` the run's
    findings in other files of the project, each with its ``path``; ``costs`` what it has counted of waits and copies.
    """

    run_id: str
    plan: Plan
    result: Result
    findings: tuple[Finding, ...] = ()
    possible: tuple[Finding, ...] = ()
    elsewhere: tuple[Finding, ...] = ()
    costs: Costs = NO_COSTS

    @property
    def files(self) -> frozenset[Path]:
        """The other files that its inputs come from."""
        other, program = self.plan.elsewhere, self.plan.program
        return frozenset([other.caller.path] if other else program.files if program else ())

    @property
    def comment(self) -> str | None:
        """The inputs of the run as a ``# dry-run:`` comment to edit; None where it has none, or they are in one."""
        if self.plan.program is not None or passed_on_by(self.result):
            return None
        if self.plan.target.function is None or self.plan.input_sources <= {"comment"}:
            return None
        return comment_text(self.plan, self.result)


@dataclass(frozen=True)
class Refutation:
    """A static finding that a run has disproved."""

    finding: Finding
    run_id: str


@dataclass(frozen=True)
class Merged:
    """What both witnesses say together; the findings in the order of the text."""

    findings: tuple[Finding, ...]
    refuted: tuple[Refutation, ...] = ()


def merge(static: Sequence[Finding], runs: Sequence[Record], source: Source, others: Iterable[Finding] = ()) -> Merged:
    """Return the findings of the text from both witnesses; records of an earlier version are moved, or dropped.

    ``others`` is what runs of other files have found in this one.
    """
    current = [record for run in runs if (record := applied(run, source)) is not None]
    lasting = (finding for record in current for finding in _lasting(record, current, source))
    found = _distinct([*lasting, *(seen_in(finding, str(finding.path)) for finding in others)], source)
    told = [*found, *(seen_in(f, str(record.plan.path)) for record in current for f in record.elsewhere)]
    kept: list[Finding] = []
    refuted: list[Refutation] = []
    for finding in static:
        same = _same(finding, found, static, source)
        behind = _behind(finding, found, current, source) if same is None else None
        if same is not None:
            found.remove(same)
            kept.append(_combined(finding, same))
            continue
        if behind is not None:
            found.remove(behind)
            here = Related(FAILURE, behind.span)
            kept.append(_combined(finding, replace(behind, related=(*behind.related, here))))
            continue
        if _is_told_elsewhere(finding, told, source):
            continue
        against = next((r for r in current if refutes(r.plan, r.result, finding, source)), None)
        if against is None:
            kept.append(_with_tried_fixes(finding, current))
        else:
            refuted.append(Refutation(finding, against.run_id))
    told = weighed([*kept, *found], [record.costs for record in current], source)
    return Merged(tuple(sorted(told, key=lambda f: (f.span, f.code))), tuple(refuted))


def seen_in(finding: Finding, path: str) -> Finding:
    """Return a finding with its related places and edits in a file as those of that file's own; itself, if there, too.

    What stands in the finding's own file, and that is another, then has its path.
    """
    home = finding.path

    def as_there(where: str | None) -> str | None:
        where = where or home
        return None if where == path else where

    return replace(
        finding,
        path=as_there(None),
        related=tuple(replace(r, path=as_there(r.path)) for r in finding.related),
        fixes=tuple(
            replace(fix, edits=tuple(replace(e, path=as_there(e.path)) for e in fix.edits)) for fix in finding.fixes
        ),
    )


def _lasting(record: Record, runs: Iterable[Record], source: Source) -> Iterator[Finding]:
    """Yield the findings of a run that no other one, with the program's own inputs, makes void."""
    others = [run for run in runs if run.result.device == record.result.device]
    for finding in record.findings:
        weak = rests_on_inputs(finding.code, record.plan, record.result)
        if weak and any(outdoes(run.plan, run.result, finding, source) for run in others):
            continue
        if not any(denies(run.plan, run.result, record.plan, record.result, finding, source) for run in others):
            yield finding


def _with_tried_fixes(finding: Finding, runs: Iterable[Record]) -> Finding:
    """Return a static finding with what the runs say of its fixes: one that any of them rejects does not hold."""
    tried = [f for run in runs for f in run.possible if (f.code, f.span) == (finding.code, finding.span)]
    return replace(finding, fixes=_of_several(tried) if tried else finding.fixes)


def _of_several(tried: Iterable[Finding]) -> tuple[Fix, ...]:
    """Return the fixes of one fault that several runs have tried, each with one verdict."""
    verdicts: dict[tuple[Edit, ...], list[Fix]] = {}
    for fix in (fix for each in tried for fix in each.fixes):
        verdicts.setdefault(fix.edits, []).append(fix)
    fixes = [min(same, key=lambda fix: _OF_SEVERAL.index(fix.verified)) for same in verdicts.values()]
    return tuple(sorted(fixes, key=_rank))


def _rank(fix: Fix) -> tuple[int, bool]:
    return _OFFERED.index(fix.verified), bool(fix.verified) and fix.safety != "safe"


def applied(record: Record, source: Source) -> Record | None:
    """Return a record as it speaks of a text: its places moved; None where what was executed is no longer the same."""
    old = record.plan
    if old.source.text == source.text:
        return replace(record, plan=replace(old, source=source))
    try:
        target = target_named(source, old.target.qualname)
        plans = plan_runs(source, old.path, target, old.options) if target else []
    except SourceError:
        return None
    new = next((p for p in plans if p.key == old.key), None) if not isinstance(plans, Missing) else None
    if new is None:
        return None
    move = _mover(old, new)
    cut = [{**entry, "line": move(entry["line"])} for entry in truncated(record.result, old.path)]
    result = replace(
        record.result,
        error=_moved_error(record.result.error, str(old.path), move),
        blocks=frozenset(move(line) for line in record.result.blocks),
        coverage=record.result.coverage.moved(move) if record.result.coverage else None,
        data={**record.result.data, "truncated": cut},
    )
    findings = tuple(_moved(finding, move) for finding in record.findings)
    elsewhere = tuple(_moved_beside(finding, str(old.path), move) for finding in record.elsewhere)
    possible = tuple(_moved(finding, move) for finding in record.possible)
    costs = replace(record.costs, rows=tuple((move(line), *counted) for line, *counted in record.costs.rows))
    moved = replace(record, plan=new, result=result, findings=findings, possible=possible, elsewhere=elsewhere)
    return replace(moved, costs=costs)


def _moved_error(error: ErrorInUserCode | None, path: str, move: Callable[[int], int]) -> ErrorInUserCode | None:
    def moved(place: Place) -> Place:
        return replace(place, line=move(place.line)) if place.path == path else place

    if error is None:
        return None
    return replace(error, at=moved(error.at) if error.at else None, stack=tuple(map(moved, error.stack)))


def _mover(old: Plan, new: Plan) -> Callable[[int], int]:
    """Return the function that finds a line's new number: executed statements move as wholes."""
    pairs = zip(_statements(old), _statements(new), strict=True)
    moves = sorted((first_line(before), first_line(after) - first_line(before)) for before, after in pairs)
    starts = [start for start, _ in moves]

    def move(line: int) -> int:
        index = bisect_right(starts, line) - 1
        return line + moves[index][1] if index >= 0 else line

    return move


def _statements(plan: Plan) -> list[ast.stmt]:
    return [step for step in plan.steps or () if isinstance(step, ast.stmt)]


def _moved(finding: Finding, move: Callable[[int], int]) -> Finding:
    def moved(span: Span) -> Span:
        return span.shifted(move(span.start.line) - span.start.line)

    def moved_related(related: Related) -> Related:
        return related if related.path else replace(related, span=moved(related.span))

    def moved_fix(fix: Fix) -> Fix:
        return replace(fix, edits=tuple(e if e.path else replace(e, span=moved(e.span)) for e in fix.edits))

    return replace(
        finding,
        span=moved(finding.span),
        related=tuple(moved_related(related) for related in finding.related),
        fixes=tuple(moved_fix(fix) for fix in finding.fixes),
    )


def _moved_beside(finding: Finding, path: str, move: Callable[[int], int]) -> Finding:
    """Return a finding of another file with those of its related places moved that are in this one."""
    related = (
        replace(r, span=r.span.shifted(move(r.span.start.line) - r.span.start.line)) if r.path == path else r
        for r in finding.related
    )
    return replace(finding, related=tuple(related))


# -- the same finding -------------------------------------------------------------------------------------------


def _distinct(findings: Iterable[Finding], source: Source) -> list[Finding]:
    """Return the findings of several runs, each code and statement once; the gravest tells."""
    groups: dict[object, list[Finding]] = {}
    for finding in sorted(findings, key=lambda f: SEVERITIES.index(f.severity)):
        place = finding.code, finding.span.start.line, id(_statement(finding, source))
        groups.setdefault(place, []).append(finding)
    found = [replace(same[0], fixes=_of_several(same)) if len(same) > 1 else same[0] for same in groups.values()]
    return [finding for finding in found if not _is_told_elsewhere(finding, found, source)]


def _is_told_elsewhere(finding: Finding, found: Iterable[Finding], source: Source) -> bool:
    """Say whether a run tells a fault at the line that is to be changed, which shows in a finding's statement."""
    kin = (other for other in found if other is not finding and other.code[:_FAMILY] == finding.code[:_FAMILY])
    return any(_names(other, finding, source, FAILURES) for other in kin)


def _same(finding: Finding, found: Sequence[Finding], static: Sequence[Finding], source: Source) -> Finding | None:
    """Return the run's finding that is the same as a static one.

    Where a statement has several static findings of the code, the run's belongs to the one it overlaps, else to the
    first.
    """
    statement = _statement(finding, source)
    if statement is None:
        return None
    for other in sorted(found, key=lambda f: f.code != finding.code):
        if not _is_of_kind(other, finding) or _statement(other, source) is not statement:
            continue
        alike = [f for f in static if _is_of_kind(other, f) and _statement(f, source) is statement]
        meant = next((f for f in alike if f.span.overlaps(other.span)), alike[0])
        if meant is finding:
            return other
    alike = (other for other in found if other.code == finding.code)
    return next((o for o in alike if _names(o, finding, source) and _names(finding, o, source)), None)


def _is_of_kind(run: Finding, static: Finding) -> bool:
    """Say whether a run's finding may be a static one: the same rule's, or an error that nobody could explain."""
    return run.code == static.code or (run.code == USER_ERROR and run.severity == static.severity == "error")


def _names(one: Finding, other: Finding, source: Source, words: Container[str] | None = None) -> bool:
    """Say whether a finding points to the statement of another one, in certain words if any are given."""
    statement = _statement(other, source)
    places = (r for r in one.related if r.path is None and (words is None or r.message in words))
    return statement is not None and any(statement_of(source, place.span.start) is statement for place in places)


def _behind(finding: Finding, found: Iterable[Finding], runs: Iterable[Record], source: Source) -> Finding | None:
    """Return the run's finding of the same code that ended it within a call of a static finding's statement."""
    statement = _statement(finding, source)
    for other in (other for other in found if other.code == finding.code):
        error = next((run.result.error for run in runs if run.run_id == other.run), None)
        if error is None or error.at is None or error.at.line != other.span.start.line:
            continue
        calls = (place.line for place in error.stack if place.path == error.at.path)
        if any(statement_of(source, Position(line, 0)) is statement for line in calls):
            return other
    return None


def _statement(finding: Finding, source: Source) -> object | None:
    return statement_of(source, finding.span.start)


def _combined(static: Finding, run: Finding) -> Finding:
    """Return the one finding that both speak of: in the run's words, with the fixes and the place of the text.

    What a run with invented inputs only hints at is said as the text proves it. An experiment with values of its own
    confirms nothing: what it has seen is the detail.
    """
    if run.status == "possible":
        severity = min(static.severity, run.severity, key=SEVERITIES.index)
        return replace(static, severity=severity, detail=static.detail or run.message, fixes=run.fixes or static.fixes)
    hinted = SEVERITIES.index(run.severity) > SEVERITIES.index(static.severity)
    unexplained = run.code != static.code
    return replace(
        run,
        code=static.code,
        name=static.name,
        message=static.message if hinted or unexplained else run.message,
        detail=run.detail or (run.message if unexplained else None),
        span=static.span,
        severity=min(static.severity, run.severity, key=SEVERITIES.index),
        related=run.related or static.related,
        fixes=run.fixes or static.fixes,
        tags=static.tags or run.tags,
        status="confirmed",
    )
