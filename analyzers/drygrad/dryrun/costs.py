"""What a run has counted of a hint's cost: waits and copies in every step are no matter of style."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from drygrad.dryrun.result import Result
from drygrad.model import Finding
from drygrad.settings import Settings
from drygrad.static.registry import all_rules, rule_by_code
from drygrad.static.source import Source, SourceError
from drygrad.static.statements import lines_of

_FEWEST = 2
"""What happens once may be part of setting up."""
_WORDS = {"sync": "waited for the device", "d2h": "copied to the host", "h2d": "copied to the device"}


@dataclass(frozen=True)
class Costs:
    """What one run has counted, as (line, kind, count) of its own file; ``codes`` are those that it may weigh."""

    rows: tuple[tuple[int, str, int], ...] = ()
    codes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, result: Result, path: Path, settings: Settings) -> Costs:
        """Return the costs of a run; a rule whose severity the user has set is not weighed."""
        counted = ((row["line"], row["kind"], row["count"]) for row in syncs(result) if Path(row["path"]) == path)
        open_to_it = (rule.code for rule in all_rules() if rule.costs and not _is_set(rule.code, settings))
        return cls(tuple(counted), frozenset(open_to_it))


NO_COSTS = Costs()


def syncs(result: Result) -> list[Mapping[str, Any]]:
    """Return the waits and copies, line by line, as the worker counted them."""
    counted: object = result.data.get("syncs")
    rows = cast("list[object]", counted) if isinstance(counted, list) else []
    return [cast("Mapping[str, Any]", row) for row in rows if isinstance(row, Mapping)]


def weighed(found: Iterable[Finding], runs: Iterable[Costs], source: Source) -> list[Finding]:
    """Return findings of a text, a hint as an info where a run has counted what it costs."""
    known = [costs for costs in runs if costs.rows]
    return [_weighed(finding, known, source) for finding in found] if known else list(found)


def _weighed(finding: Finding, runs: Iterable[Costs], source: Source) -> Finding:
    if finding.severity != "hint" or finding.path is not None:
        return finding
    counts = [_counted(finding, costs, source) for costs in runs if finding.code in costs.codes]
    most = max(counts, key=lambda count: count.total(), default=Counter[str]())
    if most.total() < _FEWEST:
        return finding
    parts = (f"{_WORDS[kind]} {'once' if count == 1 else f'{count} times'}" for kind, count in most.items())
    measured = f"measured in a run: {', '.join(parts)}"
    return replace(finding, severity="info", detail="\n".join(filter(None, [finding.detail, measured])))


def _counted(finding: Finding, costs: Costs, source: Source) -> Counter[str]:
    """Return how often what a finding is about arose in its statement, and in those that it points to."""
    rule = rule_by_code(finding.code)
    spans = [finding.span, *(related.span for related in finding.related if related.path is None)]
    statements = {_statement_lines(span.start.line, source) for span in spans}
    counted = Counter[str]()
    for line, kind, count in costs.rows:
        if rule and kind in rule.costs and any(first <= line <= last for first, last in statements):
            counted[kind] += count
    return counted


def _statement_lines(line: int, source: Source) -> tuple[int, int]:
    try:
        found = lines_of(source.tree, source, line)
    except SourceError:
        found = None
    return (found.first, found.last) if found else (line, line)


def _is_set(code: str, settings: Settings) -> bool:
    return any(code.startswith(prefix) for prefix in settings.severity)
