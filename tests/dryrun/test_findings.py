"""From the faults of a run to findings on the text."""

from __future__ import annotations

import logging

import pytest
from plan_harness import PATH, missing, plan, source_of

from drygrad.dryrun.findings import findings, missing_finding, statement_of
from drygrad.dryrun.result import ErrorInUserCode, Fault, Place, Result
from drygrad.fixing import apply_edits
from drygrad.model import Finding, Position, Severity
from drygrad.settings import Settings

TEXT = """\
import torch

# dry-run: x=torch.ones(3)
def f(x):
    y = x.exp(); z = y + 1
    if (
        z.sum() > 0  # a comment: with a colon
    ):  # and: another
        y.clamp_(0)  # drygrad: ignore[DG102]
    return helper(
        y,
    )
"""
HERE = str(PATH)
PLAN = plan(TEXT, "f")


def found(fault: Fault, settings: Settings | None = None, error: ErrorInUserCode | None = None) -> list[Finding]:
    result = Result("failed" if error else "passed", faults=(fault,), error=error)
    return findings(result, PLAN, PLAN.source, settings or Settings(), "run-1")


def test_a_place_is_told_once() -> None:
    places = [("compared here", Place(HERE, 5, 17, 5, 26)), ("made here", Place(HERE, 5, 17, 5, 26))]
    (finding,) = found(Fault("DG303", "it broadcasts", Place(HERE, 9), related=tuple(places * 3)))
    assert [related.message for related in finding.related] == ["compared here", "made here"]


@pytest.mark.parametrize(
    ("place", "span"),
    [
        (Place(HERE, 5, 17, 5, 26), (5, 17, 5, 26)),
        (Place(HERE, 5, 17), (5, 17, 5, 26)),
        (Place(HERE, 5), (5, 4, 5, 15)),
        (Place(HERE, 7), (6, 4, 8, 6)),
        (Place(HERE, 9), (9, 8, 9, 19)),
        (Place(HERE, 11), (10, 4, 12, 5)),
        (Place(HERE, 4), (4, 0, 4, 9)),
        (None, (4, 4, 4, 5)),
        (Place("/elsewhere.py", 99), (4, 4, 4, 5)),
    ],
)
def test_the_span_is_the_expressions_or_the_statements_own(
    place: Place | None, span: tuple[int, int, int, int]
) -> None:
    (finding,) = found(Fault("DG101", "it broke", place))
    assert (*finding.span.start, *finding.span.end) == span
    assert (finding.name, finding.witness, finding.status, finding.run) == (
        "inplace-on-saved-tensor",
        "dry-run",
        "confirmed",
        "run-1",
    )


def test_a_fault_in_another_file_stands_where_this_file_led_there() -> None:
    there = Place("/project/helpers.py", 3, 4, 3, 9)
    error = ErrorInUserCode("RuntimeError", "no", there, (there, Place(HERE, 10), Place(HERE, 5)))
    (finding,) = found(Fault("DG101", "it broke", there), error=error)
    assert finding.span.start == (10, 4)
    assert [(r.path, r.span.start) for r in finding.related] == [("/project/helpers.py", (3, 4))]


def test_related_places_of_this_file_have_no_path() -> None:
    (finding,) = found(Fault("DG101", "it broke", Place(HERE, 9), related=(("saved here", Place(HERE, 5, 8, 5, 15)),)))
    assert [(r.message, r.path, *r.span.start) for r in finding.related] == [("saved here", None, 5, 8)]


@pytest.mark.parametrize(
    ("given", "settings", "severity"),
    [
        (None, Settings(), "warning"),
        ("hint", Settings(), "hint"),
        ("hint", Settings(severity={"DG1": "info"}), "info"),
        (None, Settings(ignore=("DG101",)), None),
    ],
)
def test_the_severity_is_the_faults_the_rules_or_the_settings(
    given: Severity | None, settings: Settings, severity: Severity | None
) -> None:
    result = found(Fault("DG101", "it broke", Place(HERE, 5), severity=given), settings)
    assert [finding.severity for finding in result] == ([severity] if severity else [])


def test_comments_silence_findings_of_a_run_and_are_not_called_unused() -> None:
    assert found(Fault("DG102", "it broke", Place(HERE, 9))) == []
    assert [finding.code for finding in found(Fault("DG101", "it broke", Place(HERE, 9)))] == ["DG101"]


def test_an_unknown_code_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert found(Fault("DG000", "new", Place(HERE, 5))) == []
    assert "DG000" in caplog.text


def test_among_statements_in_one_line_the_column_decides() -> None:
    source = source_of("a = 1; b = 2\n")
    assert statement_of(source, Position(1, 3)) is source.tree.body[0]
    assert statement_of(source, Position(1, 8)) is source.tree.body[1]
    assert statement_of(source, Position(9, 0)) is None


def test_what_is_missing_becomes_a_finding_with_a_fix() -> None:
    text = "class Net:\n    def __init__(self, n): ...\n    @wrapped\n    def forward(self, x): ...\n"
    lack = missing(text, "Net.forward")
    (finding,) = missing_finding(lack, source := source_of(text), Settings())
    assert (finding.code, finding.severity, source.slice(finding.span)) == ("DG901", "info", "forward")
    repaired = apply_edits(source, finding.fixes[0].edits)
    assert repaired == text.replace("    @wrapped", "    # dry-run: self=..., x=...\n    @wrapped")
    assert missing(repaired, "Net.forward").message == "fill in `self` and `x` in the inputs"
    assert missing_finding(lack, source, Settings(ignore=("DG9",))) == []
