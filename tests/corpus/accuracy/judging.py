"""Judges what drygrad said of a case: who found the fault, at which line, with which fix; was the twin left alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

from drygrad.dryrun.findings import statement_of
from drygrad.model import SEVERITIES, Finding, Position, Related
from drygrad.static.source import Source

from .examining import Examined
from .programs import Case

Place = Literal["line", "related", "elsewhere", "no"]
"""Where a finding of the right code puts the fault: at the culprit, with it as a related place, or elsewhere."""

PLACES: tuple[Place, ...] = ("line", "related", "elsewhere", "no")
"""From the best to the worst."""

Repair = Literal["verified", "offered", "none"]
REPAIRS: tuple[Repair, ...] = ("verified", "offered", "none")

NO_CLAIM = frozenset({"DG901", "DG903"})
"""What says that a program could not be run claims no fault."""

GRAVE = SEVERITIES[:2]

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """What came of a case. ``alarms`` and ``remarks`` are what was said of the fixed twin, as code and severity.

    ``besides`` is what else was said of the faulty program; ``runs`` and ``twin_runs`` how their runs ended.
    """

    static: Place
    run: Place
    severity: str
    fix: Repair
    refuted: bool
    alarms: list[str]
    remarks: list[str]
    besides: list[str] = field(default_factory=list[str])
    runs: dict[str, str] = field(default_factory=dict[str, str])
    twin_runs: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def found(self) -> bool:
        """Whether a witness found the fault at the culprit's line."""
        return "line" in (self.static, self.run)

    @property
    def place(self) -> Place:
        """The better of the places at which the witnesses saw it."""
        return _first(PLACES, (self.static, self.run))

    @property
    def ran(self) -> bool:
        """Whether the fixed twin, in which nothing is in the way, had inputs and ran to its end."""
        return bool(self.twin_runs) and {*self.twin_runs.values()} <= {"passed"}

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as it is recorded."""
        return asdict(self)


def judge(case: Case, faulty: Examined, fixed: Examined) -> Outcome:
    """Return what came of a case."""
    mine = [f for f in faulty.merged.findings if f.code in case.codes]
    seen = [f for f in mine if f.witness == "dry-run" or f.status == "confirmed"]
    static = [f for f in faulty.static if f.code in case.codes]
    best = min(mine, key=lambda f: (PLACES.index(_place(f, case.line, faulty.source)), f.span), default=None)
    refuted = [r.finding for r in faulty.merged.refuted if r.finding.code in case.codes]
    claims = [f for f in fixed.merged.findings if not _is_allowed(f, case)]
    return Outcome(
        static=_best_place(static, case.line, faulty.source),
        run=_best_place(seen, case.line, faulty.source),
        severity=best.severity if best else "",
        fix=_first(REPAIRS, (_repair(f) for f in mine)),
        refuted=_best_place(refuted, case.line, faulty.source) == "line",
        alarms=_told(f for f in claims if f.severity in GRAVE),
        remarks=_told(f for f in claims if f.severity not in GRAVE),
        besides=_told(f for f in faulty.merged.findings if f not in mine and f.code not in NO_CLAIM),
        runs=faulty.outcomes,
        twin_runs=fixed.outcomes,
    )


def _first(ranked: Sequence[T], values: Iterable[T]) -> T:
    """Return the best of some values; the worst there is if there are none."""
    return ranked[min((ranked.index(value) for value in values), default=len(ranked) - 1)]


def _is_allowed(finding: Finding, case: Case) -> bool:
    return finding.code in NO_CLAIM or (finding.span.start.line, finding.code) in case.fixed.allowed


def _told(findings: Iterable[Finding]) -> list[str]:
    return [f"{f.code} {f.severity} in line {f.span.start.line}" for f in findings]


def _repair(finding: Finding) -> Repair:
    if any(fix.verified for fix in finding.fixes):
        return "verified"
    return "offered" if finding.fixes else "none"


def _best_place(findings: Sequence[Finding], line: int, source: Source) -> Place:
    return _first(PLACES, (_place(finding, line, source) for finding in findings))


def _place(finding: Finding, line: int, source: Source) -> Place:
    if is_at(finding, line, source):
        return "line"
    return "related" if any(is_at(r, line, source) for r in finding.related if r.path is None) else "elsewhere"


def is_at(place: Finding | Related, line: int, source: Source) -> bool:
    """Say whether a place is in the culprit's line, or in the same innermost statement."""
    if place.span.start.line == line:
        return True
    culprit = statement_of(source, Position(line, len(source.indentation(line))))
    return culprit is not None and statement_of(source, place.span.start) is culprit


def worse(before: Outcome, now: Outcome) -> list[str]:
    """Return what is worse than it was, in sentences."""
    losses = [
        f"{what}: {old} before, {new} now"
        for what, old, new, ranks in (
            ("found statically", before.static, now.static, PLACES),
            ("found by the run", before.run, now.run, PLACES),
            ("fix", before.fix, now.fix, REPAIRS),
        )
        if ranks.index(new) > ranks.index(old)
    ]
    new = _new_alarms([*before.alarms, *before.remarks], [*now.alarms, *now.remarks])
    return [*losses, *(f"a new alarm on the fixed twin: {told}" for told in new)]


def _new_alarms(before: Sequence[str], now: Iterable[str]) -> Iterator[str]:
    """Yield what is said of the twin and was not, or in a milder way; in which line does not matter."""
    known = [told.split()[:2] for told in before]
    for told in now:
        code, severity = told.split()[:2]
        same = next((k for k in known if k[0] == code and _gravity(k[1]) <= _gravity(severity)), None)
        if same is None:
            yield f"{code} {severity}"
        else:
            known.remove(same)


def _gravity(severity: str) -> int:
    return [str(each) for each in SEVERITIES].index(severity)
