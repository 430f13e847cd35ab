"""The outcome of a run in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

from drygrad.dryrun.result import Outcome, Result
from drygrad.lsp.dry_run_service import Seen

_MAX = 90
_FAILURES: dict[Outcome, str] = {
    "deadline": "✗ not done in time",
    "no-inputs": "? no inputs",
    "blocked": "✗ blocked",
    "unsupported": "✗ not possible here",
    "missing-package": "✗ not possible here",
    "cancelled": "cancelled",
    "crashed": "✗ crashed",
    "out-of-memory": "✗ out of memory",
    "error": "✗ could not run",
}


def words_of(runs: Sequence[Seen]) -> str:
    """Return how the runs of one target ended; the first that did not pass speaks for all."""
    if not runs:
        return "? no inputs"
    bad = next((seen for seen in runs if seen.result.outcome != "passed"), None)
    return _shortened(_failure(bad) if bad else _passed(runs))


def _passed(runs: Sequence[Seen]) -> str:
    seconds = sum(seen.result.seconds for seen in runs)
    count = sum(finding.severity != "hint" for seen in runs for finding in seen.findings)
    many = f"{len(runs)} runs " if len(runs) > 1 else ""
    found = f" · {count} finding{'s' if count > 1 else ''}" if count else ""
    return f"✓ {many}passed on {runs[0].result.device}, {seconds:.2g} s{found}"


def _failure(seen: Seen) -> str:
    grave = next((finding for finding in seen.findings if finding.severity == "error"), None)
    finding = grave or next(iter(seen.findings), None)
    if finding is not None:
        return f"{'?' if seen.result.outcome == 'no-inputs' else '✗'} {finding.message}"
    if seen.result.error is not None:
        return f"✗ {error_of(seen.result)}"
    why = f": {seen.result.notes[0]}" if seen.result.notes else ""
    return _FAILURES.get(seen.result.outcome, "✗ failed") + why


def error_of(result: Result) -> str:
    """Return the error that ended the user's code."""
    error = result.error
    if error is None or result.outcome == "missing-package":
        return error.message if error else ""
    return f"{error.type}: {error.message}" if error.message else error.type


def _shortened(text: str) -> str:
    line = text.partition("\n")[0].replace("`", "")  # a lens shows plain text
    return shorten(line, _MAX, placeholder="…")
