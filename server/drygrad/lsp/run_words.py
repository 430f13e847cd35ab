"""The outcome of a run in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from textwrap import shorten

from drygrad.dryrun.outcome_words import ended, is_guessed
from drygrad.dryrun.result import Coverage, Outcome, Result
from drygrad.lsp.dry_run_service import Seen
from drygrad.model import Finding

_MAX = 90
_FAILURES: dict[Outcome, str] = {
    "deadline": "✗ timed out",
    "no-inputs": "? no inputs",
    "blocked": "✗ blocked",
    "unsupported": "✗ not supported here",
    "missing-package": "✗ not supported here",
    "cancelled": "cancelled",
    "crashed": "✗ crashed",
    "out-of-memory": "✗ out of memory",
    "error": "✗ could not run",
}

_TELLING: dict[Outcome, str] = {
    "deadline": "DG902",
    "no-inputs": "DG901",
    "blocked": "DG903",
    "out-of-memory": "DG507",
    "error": "DG905",
}
"""The rules whose findings say why a run ended so."""


_PHASES = {
    "starting": "starting the worker",
    "waiting": "queued",
    "backing-off": "the worker starts again shortly",
    "target": "running",
}


def phase_words(phase: str) -> str:
    """Return what a run is doing, for people."""
    return _PHASES.get(phase, phase)


def words_of(runs: Sequence[Seen]) -> str:
    """Return how the runs of one target ended; the first that did not pass speaks for all."""
    if not runs:
        return "? no inputs"
    bad = next((seen for seen in runs if seen.result.outcome != "passed"), None)
    return _shortened(_failure(bad) if bad else _passed(runs))


def _passed(runs: Sequence[Seen]) -> str:
    seconds = sum(seen.result.seconds for seen in runs)
    count = sum(finding.severity != "hint" for seen in runs for finding in (*seen.findings, *seen.elsewhere))
    many = f"{len(runs)} runs " if len(runs) > 1 else ""
    found = f" · {count} finding{'s' if count > 1 else ''}" if count else ""
    doubtful = next((seen.result for seen in runs if is_guessed(seen.result)), runs[0].result)
    told = [seen.result.coverage for seen in runs if seen.result.coverage is not None]
    covered = reduce(Coverage.__or__, told) if told else None
    sign = "◐" if covered and covered.is_partial else "✓"
    return f"{sign} {many}{ended(replace(doubtful, coverage=covered))}, {seconds:.2g} s{found}"


def _failure(seen: Seen) -> str:
    """Return what ended a run: the finding that says so, the error, or the reason that the worker gives."""
    result, sign = seen.result, "?" if seen.result.outcome == "no-inputs" else "✗"
    finding = _ending(seen)
    if finding is not None:
        return f"{sign} {finding.message}"
    if result.outcome == "failed" and result.error is not None:
        return f"{sign} {error_of(result)}"
    return _FAILURES.get(result.outcome, "✗ failed") + (f": {result.reason}" if result.reason else "")


def _ending(seen: Seen) -> Finding | None:
    """Return the finding that tells why a run ended as it did."""
    outcome, findings = seen.result.outcome, (*seen.findings, *seen.elsewhere)
    if outcome == "failed":
        return next((f for f in findings if f.severity == "error"), next(iter(findings), None))
    return next((f for f in findings if f.code == _TELLING.get(outcome)), None)


def error_of(result: Result) -> str:
    """Return the error that ended the user's code."""
    error = result.error
    if error is None or result.outcome == "missing-package":
        return error.message if error else ""
    return f"{error.type}: {error.message}" if error.message else error.type


def _shortened(text: str) -> str:
    line = text.partition("\n")[0].replace("`", "")  # a lens shows plain text
    return shorten(line, _MAX, placeholder="…")
