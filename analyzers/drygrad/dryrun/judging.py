"""Whether a repaired text is better: the fault gone, nothing new, and no parameter without the gradient that it had."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias, cast

from drygrad.dryrun.comparing import Comparison, lost
from drygrad.dryrun.inventions import written
from drygrad.dryrun.merge import Record, merge
from drygrad.dryrun.refuting import entered, way
from drygrad.dryrun.result import Result
from drygrad.dryrun.trial import Trial
from drygrad.model import SEVERITIES, Finding

GRAVE = SEVERITIES[:2]
"""What is tried to be repaired first, and what a repair must not bring."""

UNNAMED = "a parameter"
"""What the worker calls parameters that the user has no name for where backward is called."""

_NEEDS_NO_GRAPH = frozenset({"DG506"})
"""Faults that are a graph which nobody needs: that the backward probe finds none any more is the repair."""

Key: TypeAlias = tuple[str, int, str | None]
"""Code, line, and the file where that is another than the text's."""


@dataclass(frozen=True)
class Seen:
    """A run of a text, and what both witnesses say of it."""

    record: Record
    findings: Sequence[Finding]
    comparison: Comparison | None = None
    """What the run can be compared by, where it was made for that."""

    @classmethod
    def of(cls, record: Record, static: Sequence[Finding]) -> Seen:
        """Merge what a check and a run say of the run's text."""
        merged = merge(static, [record], record.plan.source).findings
        return cls(record, (*merged, *record.elsewhere), Comparison.read(record.result))

    @cached_property
    def keys(self) -> Counter[Key]:
        """The findings, counted by code and line."""
        return Counter((finding.code, finding.span.start.line, finding.path) for finding in self.findings)

    @cached_property
    def grave(self) -> Counter[Key]:
        """Those of the findings that count as new where a repair has brought them."""
        return Counter((f.code, f.span.start.line, f.path) for f in self.findings if f.severity in GRAVE)


class Verdict(NamedTuple):
    """What a trial says of a fix: whether it holds, None where the run could not tell, and why not."""

    holds: bool | None
    why: str = ""
    goes_on: bool = False
    """Whether the fault is gone, and the run then met another one behind it."""


def verdict(trial: Trial, before: Seen, after: Seen, target: Finding) -> Verdict:
    """Judge a fix of ``target`` by the runs before and after it."""
    outcome, earlier = after.record.result.outcome, before.record.result.outcome
    if target.witness == "static" and outcome == earlier != "passed":
        return Verdict(None, f"both runs fail, now differently: {outcome}")
    if outcome == "no-inputs":
        return Verdict(None, "no inputs were found for the repaired code")
    if outcome not in ("passed", earlier):
        return Verdict(False, f"the run did not pass: {outcome}")
    known = _moved(before, trial)
    place = _key(target, trial, before)
    if after.keys[place] >= known[place]:
        return Verdict(False, "the fault is still there")
    new = after.grave - known
    kept = _keeps(trial, before, after, target) if not new or _gets_further(trial, before, after) else Verdict(False)
    if not new:
        return kept
    why = "a new fault appeared: " + ", ".join(f"{code} on line {line}" for code, line, _ in new)
    return Verdict(False if kept.holds is False else None, why, goes_on=kept.holds is True)


def _keeps(trial: Trial, before: Seen, after: Seen, target: Finding) -> Verdict:
    """Judge whether a fix under which a fault is gone was tried, and has kept what was right."""
    outcome = after.record.result.outcome
    missed = [statement for statement in trial.statements() if not ran(statement, after.record)]
    if missed:
        avoided = outcome == "passed" and any(_was_called(statement, after.record) for statement in missed)
        return Verdict(False if avoided else None, "the repaired statement did not run")
    if untried := _untried(before, after):
        return Verdict(None, f"the repaired code could not be run: {untried}")
    broken = _broken(trial, before, after, target.code)
    if broken is not None:
        return broken
    if target.code in _NEEDS_NO_GRAPH and before.record.result.backward != "target":
        return Verdict(True)
    starved = lost_gradients(before.record.result, after.record.result)
    return Verdict(not starved, f"{', '.join(starved)} no longer get a gradient" if starved else "")


def _untried(before: Seen, after: Seen) -> str:
    """Return why a relation that is broken without the fix could not be tried with it; nothing where all were."""
    asked = before.record.plan.options.experiments
    tried = {one.code: one for one in after.record.result.tried if one.outcome != "not-tried"}
    missing = [code for code in (asked.codes if asked is not None else ()) if code not in tried]
    why = (one.why for one in after.record.result.tried if one.code in missing)
    return next(why, "its experiments did not start") if missing else ""


def _broken(trial: Trial, before: Seen, after: Seen, code: str) -> Verdict | None:
    """Return the verdict on a fix that changes what was right, or of which nobody can tell that; None: it does not."""
    if before.comparison is None or after.comparison is None:
        return Verdict(None, "the two runs could not be compared")
    source, here = before.record.plan.source, before.record.plan.within is None  # values are those of the target's file

    def moved(line: int) -> int:
        return trial.line(line, source) if here else line

    searched_alike = written(before.record.result) == written(after.record.result)
    kept = before.comparison if searched_alike else before.comparison.effects
    changed = lost(kept, after.comparison, code, trial.fix.edits if here else (), moved)
    return Verdict(False, changed) if changed is not None else None


def _gets_further(trial: Trial, before: Seen, after: Seen) -> bool:
    """Say whether the repaired run came past the statement that ended the run before, where the next fault may be."""
    old, new = before.record.result.error, after.record.result.error
    if old is None or new is None:
        return old is not None and after.record.result.outcome == "passed"
    source = before.record.plan.source
    calls = zip(reversed(old.stack), reversed(new.stack), strict=False)
    lines = ((trial.line(was.line, source), now.line) for was, now in calls if was.path == now.path)
    return next((now > was for was, now in lines if now != was), False)


def gone(trial: Trial, before: Seen, after: Seen) -> list[Finding]:
    """Return the findings of a run that a fix has made disappear."""
    return [
        finding
        for finding in before.findings
        if finding.witness == "dry-run" and not after.keys[_key(finding, trial, before)]
    ]


def ran(statement: ast.stmt, record: Record) -> bool:
    """Say whether a statement was within what a run executed, and each block around it was entered."""
    steps, source = record.plan.steps, record.plan.source
    around = way(source.tree.body, statement)
    return (steps is None or any(outer in steps for outer in around)) and entered(statement, record.result, source)


def _was_called(statement: ast.stmt, record: Record) -> bool:
    """Say whether a run entered the functions around a statement; there it could have come to it."""
    functions = (n for n in way(record.plan.source.tree.body, statement)[:-1] if isinstance(n, ast.FunctionDef))
    return all(entered(function.body[0], record.result, record.plan.source) for function in functions)


def lost_gradients(before: Result, after: Result) -> list[str]:
    """Return the parameters that backward reached, or that had a gradient other than zero, and no longer do."""
    reached, still = [*_names(before, "reached")], [*_names(after, "reached")]
    lost = {name for name in reached if name != UNNAMED} - {*still}
    fewer = {UNNAMED} if len(still) < len(reached) and not lost else set[str]()
    return sorted({*lost, *fewer, *({*_with_gradient(before)} - {*_with_gradient(after)} - {UNNAMED})})


def _moved(before: Seen, trial: Trial) -> Counter[Key]:
    return Counter(_key(finding, trial, before) for finding in before.findings)


def _key(finding: Finding, trial: Trial, before: Seen) -> Key:
    line = finding.span.start.line
    return finding.code, trial.line(line, before.record.plan.source) if finding.path is None else line, finding.path


def _names(result: Result, entry: str) -> Iterator[str]:
    listed = result.data.get(entry)
    yield from (str(name) for name in cast("list[object]", listed if isinstance(listed, list) else []))


def _with_gradient(result: Result) -> Iterator[str]:
    """Yield the parameters whose gradients were finite and not zero."""
    listed = result.data.get("gradients")
    for entry in cast("list[object]", listed if isinstance(listed, list) else []):
        if isinstance(entry, Mapping):
            norm = cast("Mapping[str, object]", entry)
            if norm.get("norm"):
                yield str(norm.get("name"))
