"""From what a run has seen to findings on the text."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from drygrad.dryrun import inventions
from drygrad.dryrun.inputs.comment import comment_edit
from drygrad.dryrun.plan import Missing, Plan
from drygrad.dryrun.result import Fault, Place, Result
from drygrad.model import Finding, Fix, Position, Related, Rule, Severity, Span
from drygrad.settings import Settings
from drygrad.static import suppression
from drygrad.static.registry import rule_by_code
from drygrad.static.rules.reports.no_inputs import NoInputs
from drygrad.static.rules.reports.unused_suppression import UnusedSuppression
from drygrad.static.source import Source, SourceError
from drygrad.static.statements import Block, own_lines, statement_at

_log = logging.getLogger(__name__)

USER_ERROR = "DG907"
"""The code of an error in the user's code that no other rule explains."""


def findings(
    result: Result, plan: Plan, source: Source, settings: Settings, run_id: str | None = None
) -> list[Finding]:
    """Return the findings of a run in the order of the text; ``source`` is the text that was run.

    Rules that are switched off and what comments silence are left out.
    """
    faults = inventions.claimed([*result.faults, *_unexplained(result)], plan, result)
    own = (fault for fault in faults if not _is_elsewhere(fault, plan))
    found = [_finding(fault, result, plan, source, settings, run_id) for fault in own]
    missing = inventions.not_found(plan, result)
    told = missing_finding(missing, source, settings) if missing else []
    return _kept(source, [*told, *(finding for finding in found if finding)], settings)


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
    return _kept(source, [found], settings)


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


def _kept(source: Source, found: Iterable[Finding], settings: Settings) -> list[Finding]:
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


def _finding(
    fault: Fault, result: Result, plan: Plan, source: Source, settings: Settings, run_id: str | None
) -> Finding | None:
    rule = rule_by_code(fault.code)
    if rule is None:
        _log.warning("a run reported a fault of an unknown code: %s %s", fault.code, fault.message)
        return None
    if not settings.enabled(rule.code):
        return None
    span, related = _places(fault, result, plan, source)
    return Finding(
        rule.code,
        rule.name,
        fault.message,
        _severity(fault, rule, settings),
        span,
        related=tuple(related),
        detail=fault.detail,
        witness="dry-run",
        status="confirmed",
        run=run_id,
        tags=rule.tags,
    )


def _severity(fault: Fault, rule: type[Rule], settings: Settings) -> Severity:
    return settings.severity_of(rule.code, fault.severity or rule.severity)


def _places(fault: Fault, result: Result, plan: Plan, source: Source) -> tuple[Span, list[Related]]:
    """Return the span of a fault in this file, and what explains it."""
    related = [_related(message, place, plan, source) for message, place in fault.related]
    if fault.at is not None and _is_here(fault.at, plan):
        return _span(fault.at, source), related
    led_here = _led_there(fault, result, plan)
    span = _span(led_here, source) if led_here else plan.target.name_span
    if fault.at is not None:
        related.insert(0, _related("it happened here", fault.at, plan, source))
    return span, related


def _led_there(fault: Fault, result: Result, plan: Plan) -> Place | None:
    """Return the place in this file that led to a fault in another one."""
    if fault.at is None:
        return None
    for _, place in fault.related:
        if _is_here(place, plan):
            return place
    error = result.error
    if error is None or error.at is None or (error.at.path, error.at.line) != (fault.at.path, fault.at.line):
        return None
    return next((place for place in reversed(error.stack) if _is_here(place, plan)), None)


def _is_here(place: Place, plan: Plan) -> bool:
    return Path(place.path) == plan.path


def _is_elsewhere(fault: Fault, plan: Plan) -> bool:
    """Say whether a fault is one of the file that the inputs come from: that is not what was run."""
    return plan.elsewhere is not None and fault.at is not None and Path(fault.at.path) == plan.elsewhere.caller.path


def _span(place: Place, source: Source) -> Span:
    line = min(max(place.line, 1), max(len(source.lines), 1))
    if place.column is not None and place.end_line is not None and place.end_column is not None and line == place.line:
        return Span.of(place.line, place.column, place.end_line, place.end_column)
    column = place.column if place.column is not None else len(source.indentation(line))
    return statement_span(source, Position(line, column))


def _related(message: str, place: Place, plan: Plan, source: Source) -> Related:
    if _is_here(place, plan):
        return Related(message, _span(place, source))
    column, end_line = place.column or 0, place.end_line or place.line
    end_column = place.end_column if place.end_column is not None else column
    return Related(message, Span.of(place.line, column, end_line, end_column), place.path)


def _comment_fix(missing: Missing, source: Source) -> Fix:
    """Return the fix that inserts the comment: with the best inputs that were tried, else a ``...`` for each name."""
    text = missing.comment or ", ".join(f"{name}=..." for name in missing.names)
    edit = comment_edit(source, missing.target.function, f"# dry-run: {text}")
    return Fix("Insert a comment for the inputs", (edit,), "safe")
