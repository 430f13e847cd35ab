"""What a tool answers in words: short, the gravest first; the rest is in the structured result."""

from __future__ import annotations

from collections.abc import Iterator

from drygrad.cli.formats import summary
from drygrad.cli.report import Item, Ran, Report
from drygrad.cli.terminal import plain
from drygrad.dryrun import outcome_words
from drygrad.dryrun.merge import Record
from drygrad.dryrun.report import target_name
from drygrad.model import SEVERITIES, Fix

MOST_FINDINGS = 30
MOST_RUNS = 20


def told(report: Report, *, relations: bool = False) -> str:
    """Return a report in words; with what held and what was not tried, where ``relations`` are asked for."""
    lines = [*_findings(report), *_runs(report, relations=relations), summary.render(report, coloured=False).rstrip()]
    return plain("\n".join(lines))


def _findings(report: Report) -> Iterator[str]:
    items = by_gravity(report.items)
    for item in items[:MOST_FINDINGS]:
        found = item.finding
        cell = f":cell {item.cell}" if item.cell else ""
        place = f"{item.path}{cell}:{found.span.start.line}:{found.span.start.column + 1}"
        seen = ", seen in a run" if found.run else ""
        yield f"{place}: {found.severity}[{found.code}]: {found.message} ({found.name}{seen})"
        if item.excerpt.strip():
            yield f"    {item.excerpt.strip()}"
        for related in found.related:
            where = f"line {related.span.start.line}{f' of {related.path}' if related.path else ''}"
            yield f"    {where}: {related.message}"
        if found.fixes:
            yield f"    fix ({_fix(found.fixes[0])}): {found.fixes[0].title}"
    if len(items) > MOST_FINDINGS:
        yield f"... and {len(items) - MOST_FINDINGS} findings more, in the structured result"


def by_gravity(items: list[Item]) -> list[Item]:
    """Return findings, the gravest first; those of one gravity stay in their order."""
    return sorted(items, key=lambda item: SEVERITIES.index(item.finding.severity))


def _fix(fix: Fix) -> str:
    verdict = {True: "verified, ", False: "did not hold, ", None: ""}[fix.verified]
    return f"{verdict}{fix.safety}"


def _runs(report: Report, *, relations: bool) -> Iterator[str]:
    for ran in report.runs[:MOST_RUNS]:
        yield from _run(ran, relations=relations)
    if len(report.runs) > MOST_RUNS:
        yield f"... and {len(report.runs) - MOST_RUNS} runs more, in the structured result"


def _run(ran: Ran, *, relations: bool) -> Iterator[str]:
    if not isinstance(ran.outcome, Record):
        yield f"{target_name(ran.path, ran.outcome.target)}: not run: {ran.said(ran.outcome.message)}"
        return
    record, result = ran.outcome, ran.outcome.result
    yield f"{target_name(ran.path, record.plan.target)}: {ran.said(outcome_words.ended(result))}"
    yield from (f"    {given.name} = {given.value} ({ran.said(given.source)})" for given in result.inputs)
    if result.error is not None and result.outcome != "passed":
        at = f" at line {result.error.at.line}" if result.error.at else ""
        yield f"    {result.error.type}{at}: {result.error.message.partition(chr(10))[0]}"
    yield from (f"    {f.code} at line {f.span.start.line} did not happen ({f.name})" for f in ran.refuted)
    if relations:
        for outcome in ("broken", "held"):
            names = [tried.name for tried in result.tried if tried.outcome == outcome]
            yield f"    {outcome}: {', '.join(names) or 'nothing'}"
        yield from (f"    not tried: {t.name}: {t.why}" for t in result.tried if t.outcome == "not-tried")
