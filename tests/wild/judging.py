"""Judges what was said of a fault's file before its fix and after: found or not, and what is an alarm."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .commits import Fix
from .witnesses import Said, Told

NO_CLAIM = frozenset("DG901 DG902 DG903 DG904 DG905 DG906".split())
"""What says that something could not be run, or be silenced, claims no fault."""
GRAVE = ("error", "warning")


@dataclass(frozen=True)
class Side:
    """A file before or after the fix, and what was said of it."""

    text: str
    check: Said
    run: Said


@dataclass(frozen=True)
class Judged:
    """What came of a fix.

    ``check`` and ``run`` are the findings that count, by their witness, in words for a person to confirm; ``unfitting``
    are those at the right line whose rule is of another family; ``alarms`` those of the fixed side that should not be.
    """

    number: int
    name: str
    split: str
    family: str
    fault: str
    outcome: str
    reason: str = ""
    check: list[str] = field(default_factory=list[str])
    run: list[str] = field(default_factory=list[str])
    unfitting: list[str] = field(default_factory=list[str])
    alarms: list[str] = field(default_factory=list[str])
    fixed_outcome: str = ""
    seconds: float = 0.0
    inputs: list[str] = field(default_factory=list[str])
    others: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(fix: Fix, before: Side, after: Side | None) -> Judged:
    """Return what came of a fix; ``after`` is None where only its parent was looked at."""
    said = [told for told in (*before.check.findings, *before.run.findings) if _is_claim(told, fix)]
    near = [told for told in said if fix.is_near(told.line)]
    right = [told for told in near if fix.fits(told.code)]
    return Judged(
        fix.number,
        fix.name,
        fix.split,
        fix.family,
        fix.fault,
        before.run.outcome,
        before.run.reason,
        check=_words([told for told in before.check.findings if told in right]),
        run=_words([told for told in right if told.by_run]),
        unfitting=_words([told for told in near if told not in right]),
        alarms=_alarms(fix, before, after, right) if after else [],
        fixed_outcome=after.run.outcome if after else "",
        seconds=before.run.seconds,
        inputs=before.run.inputs,
        others=_words([told for told in before.run.findings if told not in near]),
    )


def _alarms(fix: Fix, before: Side, after: Side, right: Sequence[Told]) -> list[str]:
    """Return what is grave within the fixed function and was put right, or was not said of it before."""
    mended = {told.code for told in right}
    known = {_key(told, before) for told in _within(before, fix)}
    return _words([told for told in _within(after, fix) if told.code in mended or _key(told, after) not in known])


def _within(side: Side, fix: Fix) -> list[Told]:
    """Return the claims within the function: in the whole file where it is no longer there."""
    first, last = _span(side.text, fix.function) or (1, side.text.count("\n") + 1)
    said = (*side.check.findings, *side.run.findings)
    return [t for t in said if _is_claim(t, fix) and t.severity in GRAVE and first <= t.line <= last]


def _span(text: str, qualname: str) -> tuple[int, int] | None:
    """Return the first and last line of a function."""
    try:
        body: list[ast.stmt] = ast.parse(text).body
    except SyntaxError:
        return None
    node: ast.stmt | None = None
    for name in qualname.split("."):
        inside = [n for statement in body for n in ast.walk(statement)]
        named = (n for n in inside if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)))
        node = next((n for n in named if n.name == name), None)
        if node is None:
            return None
        body = node.body
    return (node.lineno, node.end_lineno or node.lineno) if node else None


def _key(told: Told, side: Side) -> tuple[str, str]:
    """Return what makes a finding the same on both sides, wherever the fix has moved its line."""
    lines = side.text.splitlines()
    return told.code, lines[told.line - 1].strip() if told.line <= len(lines) else ""


def _is_claim(told: Told, fix: Fix) -> bool:
    return told.code not in NO_CLAIM and told.path == fix.path


def _words(found: Sequence[Told]) -> list[str]:
    return sorted({f"{told.line}: {told.severity} {told.code} {told.message}" for told in found})
