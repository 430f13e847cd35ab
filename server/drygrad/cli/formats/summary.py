"""The last line of a report: how many of what, and what could be done about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from drygrad.cli.report import Report


def render(report: Report, *, coloured: bool) -> str:
    """Return the summary line."""
    del coloured
    return f"{_fixes(report)}{'; '.join(_parts(report))}.\n"


def _fixes(report: Report) -> str:
    if not report.fixed:
        return ""
    count = _count(report.fixed, "fix")
    return f"Applied {count}. " if report.written else f"Would apply {count}; nothing is written. "


def _parts(report: Report) -> Iterator[str]:
    files = _count(len(report.results) - report.failed, "file")
    counts = ", ".join(_count(number, severity) for severity, number in report.counts().items())
    yield f"Found {counts} in {files}" if counts else f"Found nothing in {files}"
    if safe := report.fixable("safe"):
        yield f"{safe} fixable with --fix"
    if unsafe := report.fixable("unsafe"):
        yield f"{unsafe} {'more' if safe else 'fixable'} with --unsafe-fixes"
    if report.failed:
        yield f"{_count(report.failed, 'file')} could not be checked"
    if report.runs:
        yield _runs(report)
    if report.known:
        yield f"{report.known} known from the baseline"


def _runs(report: Report) -> str:
    from drygrad.dryrun.merge import Record  # noqa: PLC0415 - a check has no runs
    from drygrad.dryrun.outcome_words import inputs  # noqa: PLC0415

    results = [ran.outcome.result for ran in report.runs if isinstance(ran.outcome, Record)]
    outcomes = Counter(f"{r.outcome}{inputs(r) if r.outcome == 'passed' else ''}" for r in results)
    skipped = len(report.runs) - len(results)
    ended = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    without = f"{skipped} without inputs" if skipped else ""
    return f"{_count(len(report.runs), 'run')}: {', '.join(part for part in (ended, without) if part)}"


def _count(number: int, word: str) -> str:
    plural = {"fix": "fixes"}.get(word, f"{word}s")
    return f"{number:,} {word if number == 1 else plural}"
