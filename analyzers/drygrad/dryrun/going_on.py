"""What comes behind the fault that has ended a run: what the run with its best fix has seen, told of the text as it is.

A run ends with its first error. Where a fix of that lets it go on, what it then meets is told, too, at its place in the
text before the fix, and never as an error: it is another text that has failed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from drygrad.dryrun.findings import findings, findings_elsewhere
from drygrad.dryrun.inventions import was_found
from drygrad.dryrun.judging import Seen
from drygrad.dryrun.merge import Record
from drygrad.dryrun.trial import Trial
from drygrad.model import Edit, Finding, Fix, Related, Span
from drygrad.settings import Settings
from drygrad.static.source import Source

ROUNDS = 3
"""So many faults may come one behind the other."""
_FIXED = "the run continues with this fixed"
"""How the places of the fixes are kept, until they are told in the message."""


@dataclass(frozen=True)
class Ahead:
    """A fix that lets a run go on, what it is a fix of, and what the run of the repaired text has seen.

    ``holds`` is None where nobody can tell yet, for the run then met something else.
    """

    finding: Finding
    fix: Fix
    trial: Trial
    after: Seen
    holds: bool | None


def chosen(record: Record, known: Iterable[Ahead]) -> Ahead | None:
    """Return the best way on behind the error that has ended a run; None where there is none, or nothing to see."""
    error = record.result.error
    if record.result.outcome != "failed" or error is None or error.at is None or record.plan.within is not None:
        return None
    at = error.at.line if error.at.path == str(record.plan.path) else None
    ways = [way for way in known if at in (way.finding.span.start.line, *_related_lines(way.finding))]
    best = min(ways, key=lambda way: (way.holds is not True, way.fix.safety != "safe"), default=None)
    return best if best is not None and _new(record, best, best.after.record.findings) else None


def later(record: Record, way: Ahead, settings: Settings) -> Record:
    """Return the record of the run with the fix, which may claim no more of its inputs than the one before."""
    plan, result = way.after.record.plan, way.after.record.result
    if was_found(record.result):
        plan = replace(plan, proposal=record.plan.proposal, partial=record.plan.partial)
        result = replace(result, data={**result.data, "search": record.result.data["search"]})
    here = findings(result, plan, plan.source, settings, record.run_id)
    there = findings_elsewhere(result, plan, settings, record.run_id)
    return Record(record.run_id, plan, result, tuple(here), elsewhere=tuple(there))


def seen_behind(record: Record, way: Ahead, after: Record) -> list[Finding]:
    """Return what a run with a fix has found beyond the one without, at its places in the text before."""
    back = _Back(way.trial, record.plan.source)
    fixed = Related(_FIXED, way.finding.span)
    there = replace(fixed, path=str(record.plan.path))
    here = (back.finding(finding) for finding in _new(record, way, after.findings))
    known = {(finding.code, finding.path, finding.span) for finding in record.elsewhere}
    beside = [f for f in after.elsewhere if (f.code, f.path, f.span) not in known]
    return [
        *(replace(finding, related=(*finding.related, fixed)) for finding in here if finding is not None),
        *(replace(finding, related=(*finding.related, there), fixes=()) for finding in beside),
    ]


def told(record: Record, behind: Sequence[Finding]) -> Record:
    """Return a record with what comes behind its first fault, each finding with the lines of the fixes before it."""
    found = [_told(finding) for finding in behind]
    return replace(
        record,
        findings=(*record.findings, *(finding for finding in found if finding.path is None)),
        elsewhere=(*record.elsewhere, *(finding for finding in found if finding.path is not None)),
    )


def verified(record: Record, way: Ahead, after: Record) -> Record:
    """Return a record with the fix marked as one that holds where a safe fix mends what comes behind it."""
    end = after.result.error
    last = next((f for f in after.findings if end and end.at and end.at.line == f.span.start.line), None)
    if way.holds is not None or last is None or not any(fix.verified and fix.safety == "safe" for fix in last.fixes):
        return record

    def marked(finding: Finding) -> Finding:
        holds = (replace(f, verified=True) if f.edits == way.fix.edits else f for f in finding.fixes)
        return replace(finding, fixes=tuple(sorted(holds, key=lambda fix: not fix.verified)))

    return replace(record, findings=tuple(map(marked, record.findings)))


def _told(finding: Finding) -> Finding:
    fixed = {related.span.start.line for related in finding.related if related.message == _FIXED}
    rest = tuple(related for related in finding.related if related.message != _FIXED)
    return after_fixes(replace(finding, related=rest), fixed)


def after_fixes(finding: Finding, fixed: Iterable[int]) -> Finding:
    """Return a finding as one that a run only comes to when what is wrong at other lines is fixed."""
    lines = sorted(fixed)
    what = f"the fix on line {lines[0]}" if len(lines) == 1 else f"the fixes on lines {', '.join(map(str, lines))}"
    severity = "warning" if finding.severity == "error" else finding.severity
    return replace(finding, severity=severity, message=f"{finding.message} (after {what})")


def _new(record: Record, way: Ahead, found: Iterable[Finding]) -> list[Finding]:
    """Return the findings of the run with a fix that the run without it does not have."""
    source = record.plan.source
    known = {(finding.code, way.trial.line(finding.span.start.line, source)) for finding in record.findings}
    return [finding for finding in found if (finding.code, finding.span.start.line) not in known]


def _related_lines(finding: Finding) -> Iterator[int]:
    return (related.span.start.line for related in finding.related if related.path is None)


class _Back:
    """The way back from the text that a fix has made to the one before."""

    def __init__(self, trial: Trial, before: Source) -> None:
        self._before, self._after = before, trial.source
        self._pieces: list[tuple[int, int, int, int]] = []
        """Where each edit begins and ends, in the text before and in the one after it."""
        grown = 0
        for edit in sorted(trial.fix.edits, key=lambda edit: edit.span):
            start, end = before.offset(edit.span.start), before.offset(edit.span.end)
            written = len(edit.new_text.replace("\r\n", "\n").replace("\n", before.newline))
            self._pieces.append((start, end, start + grown, start + grown + written))
            grown += written - (end - start)

    def finding(self, finding: Finding) -> Finding | None:
        """Return a finding at its place in the text before; None where it is one of what the fix has written."""
        span = self._span(finding.span)
        if span is None:
            return None
        related = (r if r.path else self._related(r) for r in finding.related)
        fixes = (self._fix(fix) for fix in finding.fixes)
        kept = tuple(one for one in related if one is not None)
        return replace(finding, span=span, related=kept, fixes=tuple(fix for fix in fixes if fix is not None))

    def _related(self, related: Related) -> Related | None:
        span = self._span(related.span)
        return replace(related, span=span) if span is not None else None

    def _fix(self, fix: Fix) -> Fix | None:
        edits: list[Edit] = []
        for edit in fix.edits:
            span = edit.span if edit.path else self._span(edit.span)
            if span is None:
                return None
            edits.append(replace(edit, span=span))
        return replace(fix, edits=tuple(edits))

    def _span(self, span: Span) -> Span | None:
        start, end = self._offset(self._after.offset(span.start)), self._offset(self._after.offset(span.end))
        if start is None or end is None:
            return None
        return Span(self._before.position(start), self._before.position(end))

    def _offset(self, offset: int) -> int | None:
        """Return an offset in the text before; None within what an edit has written."""
        grown = 0
        for _, end, new_start, new_end in self._pieces:
            if offset <= new_start:
                break
            if offset < new_end:
                return None
            grown = new_end - end
        return offset - grown
