"""From what a run has seen to findings on the text."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from drygrad.dryrun import inventions
from drygrad.dryrun.inputs.comment import comment_edit
from drygrad.dryrun.launches.completing import completed
from drygrad.dryrun.other_files import other_file, other_text
from drygrad.dryrun.plan import Missing, Plan
from drygrad.dryrun.result import Fault, Place, Result
from drygrad.model import Finding, Fix, Position, Related, Span
from drygrad.settings import Settings
from drygrad.static import suppression
from drygrad.static.registry import rule_by_code
from drygrad.static.rules.reports.no_inputs import NoInputs
from drygrad.static.rules.reports.unused_suppression import UnusedSuppression
from drygrad.static.source import Source, SourceError
from drygrad.static.statements import Block, own_lines, statement_at

_log = logging.getLogger(__name__)

_MOST_USAGE = 6
"""So many lines of what a program has printed may be its usage."""
USER_ERROR = "DG907"
"""The code of an error in the user's code that no other rule explains."""


def findings(
    result: Result, plan: Plan, source: Source, settings: Settings, run_id: str | None = None
) -> list[Finding]:
    """Return the findings of a run in the order of the text; ``source`` is the text that was run.

    Rules that are switched off and what comments silence are left out.
    """
    own = (fault for fault in _claimed(result, plan) if other_file(fault.at, plan) is None)
    told = Telling(result, plan, settings, run_id)
    found = [told.finding(fault, source) for fault in own]
    missing = inventions.not_found(plan, result)
    lacking = missing_finding(missing, source, settings) if missing else []
    return kept(source, [*lacking, *(finding for finding in found if finding)], settings)


def findings_elsewhere(result: Result, plan: Plan, settings: Settings, run_id: str | None = None) -> list[Finding]:
    """Return the findings of a run in other files of the project, each at its place there and with its ``path``."""
    by_file: dict[Path, list[Fault]] = {}
    for fault in _claimed(result, plan):
        if (path := other_file(fault.at, plan)) is not None:
            by_file.setdefault(path, []).append(fault)
    found: list[Finding] = []
    for path, faults in by_file.items():
        source = other_text(path, plan)
        if source is not None:
            told = Telling(result, plan, settings, run_id, path)
            here = [finding for fault in faults if (finding := told.finding(fault, source))]
            found += [replace(finding, path=str(path)) for finding in kept(source, here, settings)]
    return found


def _claimed(result: Result, plan: Plan) -> Iterator[Fault]:
    """Yield what a run claims, but for the file that the inputs come from: that is not what was run."""
    other = plan.elsewhere.caller.path if plan.elsewhere else plan.program.path if plan.program else plan.path
    for fault in inventions.claimed([*result.faults, *_unexplained(result)], plan, result):
        if other == plan.path or fault.at is None or Path(fault.at.path) != other:
            yield fault


def missing_finding(missing: Missing, source: Source, settings: Settings) -> list[Finding]:
    """Return the finding that says why a target cannot be run; none where it is switched off or silenced."""
    rule = NoInputs
    if not settings.enabled(rule.code):
        return []
    span = missing.target.name_span if missing.in_flag else missing.span
    message = f"--inputs: {missing.message}" if missing.in_flag else missing.message
    severity = settings.severity_of(rule.code, rule.severity)
    fixes = (_comment_fix(missing, source),) if missing.names else ()
    found = Finding(rule.code, rule.name, message, severity, span, fixes=fixes, witness="dry-run", status="confirmed")
    return kept(source, [found], settings)


def statement_of(source: Source, position: Position) -> Block | None:
    """Return the innermost statement at a position; among several in one line the one around the column."""
    try:
        found = statement_at(source.tree, position.line)
    except SourceError:
        return None
    if not isinstance(found, ast.stmt) or ";" not in source.line_text(position.line):
        return found
    same_line = (n for n in ast.walk(source.tree) if isinstance(n, ast.stmt) and n.lineno == position.line)
    around = [n for n in same_line if source.start(n) <= position < source.end(n) and n.end_lineno == position.line]
    return max(around, key=lambda n: n.col_offset, default=found)


def statement_span(source: Source, position: Position) -> Span:
    """Return the span of the innermost statement at a position, of a compound one its header."""
    statement = statement_of(source, position)
    if statement is None:
        indentation = len(source.indentation(position.line))
        return Span.of(position.line, indentation, position.line, len(source.line_text(position.line).rstrip()))
    lines = own_lines(statement, source)
    if isinstance(statement, ast.stmt) and lines.last == statement.end_lineno:
        return Span(Position(lines.first, source.start(statement).column), source.end(statement))
    column = len(source.indentation(lines.first))
    return Span.of(lines.first, column, lines.last, len(_without_comment(source.line_text(lines.last))))


def _without_comment(header: str) -> str:
    """Return the last line of a compound statement's header up to its colon."""
    end = header.rfind(":", 0, header.find("#") if "#" in header else len(header))
    return header[: end + 1] if end >= 0 else header.rstrip()


def kept(source: Source, found: Iterable[Finding], settings: Settings) -> list[Finding]:
    """Return the findings that no comment silences; a comment that silences nothing is the static witness's matter."""
    ordered = sorted(found, key=lambda finding: (finding.span, finding.code))
    try:
        return [*suppression.apply(source, source.tree, ordered, settings.without((UnusedSuppression.code,)))]
    except SourceError:
        return ordered


def _unexplained(result: Result) -> Iterator[Fault]:
    """Yield the error that ended the run, if the worker had nothing to say of it."""
    error = result.error
    if result.outcome == "failed" and error is not None and not result.faults:
        yield Fault(USER_ERROR, f"{error.type}: {error.message}", error.at)


@dataclass(frozen=True)
class Telling:
    """How the faults of a run become findings of one file's text: the target's, or (``path``) another's."""

    result: Result
    plan: Plan
    settings: Settings
    run_id: str | None = None
    path: Path | None = None

    def finding(self, fault: Fault, source: Source) -> Finding | None:
        """Return the finding of a fault; None where its rule is not known or switched off."""
        rule = rule_by_code(fault.code)
        if rule is None:
            _log.warning("a run reported a fault of an unknown code: %s %s", fault.code, fault.message)
            return None
        if not self.settings.enabled(rule.code):
            return None
        span, related = self._places(fault, source)
        return Finding(
            rule.code,
            rule.name,
            fault.message,
            self.settings.severity_of(rule.code, fault.severity or rule.severity),
            span,
            related=tuple(related),
            detail=self._detail(fault),
            witness="dry-run",
            status="confirmed" if inventions.is_confirmed(fault, self.plan) else "possible",
            run=self.run_id,
            tags=rule.tags,
        )

    def _detail(self, fault: Fault) -> str | None:
        """Return what is told beside a fault: of a program that lacks arguments, its usage and how to run it."""
        plan = self.plan
        if fault.code != NoInputs.code:
            return fault.detail
        root = plan.options.root
        path = plan.path.relative_to(root) if root and plan.path.is_relative_to(root) else plan.path
        usage = fault.detail or "\n".join(self.result.output.strip().splitlines()[-_MOST_USAGE:])
        complete = f"complete this command: {completed(fault.message, usage, str(path), plan.options.launch)}"
        return f"{usage}\n{complete}" if usage else complete

    def _places(self, fault: Fault, source: Source) -> tuple[Span, list[Related]]:
        """Return the span of a fault in this file, and what explains it."""
        told = (self._related(message, place, source) for message, place in fault.related)
        related = [*dict.fromkeys(told)]  # a loss is computed in several iterations
        led_here = _led_there(fault, self.result, self.plan)
        if fault.at is not None and self._is_here(fault.at):
            if self.path is not None and led_here is not None and all(r.path is None for r in related):
                related.append(self._related("the run started here", led_here, source))
            return _span(fault.at, source), related
        span = _span(led_here, source) if led_here else self.plan.target.name_span
        if fault.at is not None:
            related.insert(0, self._related("it happened here", fault.at, source))
        return span, related

    def _related(self, message: str, place: Place, source: Source) -> Related:
        if self._is_here(place):
            return Related(message, _span(place, source))
        other = self.plan.source if _is_here(place, self.plan) else other_text(Path(place.path), self.plan)
        if other is not None:
            return Related(message, _span(place, other), place.path)
        return Related(message, Span.of(place.line, place.column or 0, place.line, place.column or 0), place.path)

    def _is_here(self, place: Place) -> bool:
        return Path(place.path) == (self.path or self.plan.path)


def _led_there(fault: Fault, result: Result, plan: Plan) -> Place | None:
    """Return the place in the target's file that led to a fault in another one."""
    if fault.at is None or _is_here(fault.at, plan):
        return None
    for _, place in fault.related:
        if _is_here(place, plan):
            return place
    error = result.error
    if error is None or error.at is None or (error.at.path, error.at.line) != (fault.at.path, fault.at.line):
        return None
    return next((place for place in error.stack if _is_here(place, plan)), None)


def _is_here(place: Place, plan: Plan) -> bool:
    return Path(place.path) == plan.path


def _span(place: Place, source: Source) -> Span:
    line = min(max(place.line, 1), max(len(source.lines), 1))
    if place.column is not None and place.end_line is not None and place.end_column is not None and line == place.line:
        return Span.of(place.line, place.column, place.end_line, place.end_column)
    column = place.column if place.column is not None else len(source.indentation(line))
    return statement_span(source, Position(line, column))


def _comment_fix(missing: Missing, source: Source) -> Fix:
    """Return the fix that inserts the comment: with the best inputs that were tried, else a ``...`` for each name."""
    text = missing.comment or ", ".join(f"{name}=..." for name in missing.names)
    edit = comment_edit(source, missing.target.function, f"# dry-run: {text}")
    return Fix("Insert a comment with the inputs", (edit,), "safe")
