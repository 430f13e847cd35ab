"""What two witnesses say together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from plan_harness import plan

from drygrad.dryrun.costs import Costs
from drygrad.dryrun.inputs.proposing import Proposal
from drygrad.dryrun.merge import Merged, Record, merge
from drygrad.dryrun.plan import RunOptions
from drygrad.dryrun.result import ErrorInUserCode, Place, Result
from drygrad.model import Edit, Finding, Fix, Related, Span
from drygrad.settings import Settings
from drygrad.static.registry import rule_by_code
from drygrad.static.source import Source

TEXT = """\
import torch

def other(x):
    return x

# dry-run: x=torch.ones(3, requires_grad=True)
def f(x):
    y = x.exp()
    if x is not None:
        x = x + 1
    else:
        x = x + 2
    for _ in range(9):
        y.clamp_(0)
    y.add_(1); z = y * x
    return z.sum()
"""
SOURCE = Source(TEXT)
ALL_BLOCKS = frozenset({8, 10, 12, 14})


def static(code: str, line: int, column: int = 4, end: int = 9) -> Finding:
    rule = rule_by_code(code)
    assert rule is not None
    span = Span.of(line, column, line, end)
    fix = Fix("Fix it", (Edit(span, "fixed"),), "safe")
    return Finding(code, rule.name, "may fail", "warning", span, (Related("here", span),), (fix,))


def seen(code: str, line: int, column: int = 4, end: int = 9) -> Finding:
    finding = replace(static(code, line, column, end), message="did fail", severity="error", fixes=(), related=())
    return replace(finding, detail="torch says", witness="dry-run", status="confirmed", run="r1")


def record(*findings: Finding, text: str = TEXT, options: RunOptions | None = None, **result: Any) -> Record:
    answer: dict[str, Any] = {"outcome": "passed", "device": "sim", "blocks": ALL_BLOCKS, "backward": "probe", **result}
    return Record("r1", plan(text, "f", options), Result(**answer), findings)


def merged(finding: Finding, run: Record, source: Source = SOURCE) -> Merged:
    return merge([finding], [run], source)


def test_what_a_run_reproduces_is_confirmed_and_one() -> None:
    possible = static("DG101", 14, 8, 18)
    (finding,) = merged(possible, record(seen("DG101", 14, 8, 19), outcome="failed")).findings
    assert (finding.message, finding.detail, finding.status, finding.witness, finding.run, finding.severity) == (
        "did fail",
        "torch says",
        "confirmed",
        "dry-run",
        "r1",
        "error",
    )
    assert (finding.span, finding.fixes, finding.related) == (possible.span, possible.fixes, possible.related)


CALLING = """\
import torch

def inner(x):
    return x @ x

# dry-run: x=torch.ones(2, 3)
def f(x):
    y = inner(x)
    return y
"""


def test_an_experiment_with_values_of_its_own_confirms_nothing() -> None:
    tried = replace(seen("DG102", 9), severity="warning", status="possible", message="if `x` is 0, did fail")
    (found,) = merged(static("DG102", 9), record(tried)).findings
    assert (found.status, found.run, found.message) == ("possible", None, "may fail")
    assert found.detail == "if `x` is 0, did fail"


def test_a_fault_within_a_call_is_that_of_the_call() -> None:
    run = record(seen("DG314", 4), text=CALLING, outcome="failed")
    at, call = Place(str(run.plan.path), 4), Place(str(run.plan.path), 8)
    run = replace(run, result=replace(run.result, error=ErrorInUserCode("RuntimeError", "did fail", at, (at, call))))
    for text, lines in ((CALLING, (8, 4)), (CALLING.replace("def inner", "\n\ndef inner"), (10, 6))):
        (finding,) = merged(static("DG314", lines[0]), run, Source(text)).findings
        assert (finding.span.start.line, finding.message, finding.status) == (lines[0], "did fail", "confirmed")
        assert [(r.message, r.span.start.line) for r in finding.related] == [("it fails here", lines[1])]
    assert len(merged(static("DG314", 9), run, Source(CALLING)).findings) == 2
    assert len(merged(static("DG205", 8), run, Source(CALLING)).findings) == 2


def test_findings_that_name_each_other_are_one() -> None:
    first, second = Span.of(8, 4, 8, 9), Span.of(16, 11, 16, 18)
    possible = replace(static("DG304", 8), related=(Related("passed to the loss here", second),))
    run = replace(seen("DG304", 16, 11, 18), related=(Related("softmax is applied here", first),))
    (finding,) = merged(possible, record(run)).findings
    assert (finding.span, finding.status, finding.message) == (first, "confirmed", "did fail")
    for one, other in ((replace(possible, related=()), run), (possible, replace(run, related=()))):
        assert len(merged(one, record(other)).findings) == 2


def test_another_statement_or_code_is_another_finding() -> None:
    for other in (seen("DG101", 8), seen("DG102", 14, 8, 19), seen("DG101", 15, 4, 13)):
        found = merged(static("DG101", 15, 15, 24), record(other, outcome="failed")).findings
        assert [finding.status for finding in found].count("confirmed") == 1
        assert len(found) == 2


def test_among_several_of_a_statement_the_one_that_overlaps_is_meant() -> None:
    two = [static("DG101", 14, 8, 9), static("DG101", 14, 10, 18)]
    found = merge(two, [record(seen("DG101", 14, 12, 19), outcome="failed")], SOURCE).findings
    assert [(finding.span.start.column, finding.status) for finding in found] == [(8, "possible"), (10, "confirmed")]


def test_runs_that_say_the_same_say_it_once() -> None:
    runs = [record(seen("DG101", 8), outcome="failed")] * 2
    assert len(merge([], runs, SOURCE).findings) == 1


BASE: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("code", "line", "result", "gone"),
    [
        ("DG101", 14, BASE, True),
        ("DG101", 14, {"backward": "none"}, False),
        ("DG101", 14, {"outcome": "failed"}, False),
        ("DG101", 14, {"outcome": "deadline"}, False),
        ("DG101", 14, {"error": ErrorInUserCode("KeyError", "k", None)}, False),
        ("DG101", 14, {"blocks": ALL_BLOCKS - {14}}, False),
        ("DG101", 14, {"blocks": ALL_BLOCKS - {12}}, True),  # the branch does not touch y
        ("DG303", 15, {"blocks": ALL_BLOCKS}, True),
        ("DG103", 14, BASE, False),  # the function ran no backward itself
        ("DG103", 14, {"backward": "target"}, True),
        ("DG205", 14, BASE, True),
        ("DG723", 14, {"backward": "target"}, True),
        ("DG723", 14, {"backward": "target", "device": "cpu"}, False),
        ("DG205", 14, {"device": "cpu"}, False),
        ("DG302", 14, BASE, False),  # depends on values
        ("DG401", 14, BASE, False),
        ("DG101", 3, BASE, False),  # not what was run
    ],
)
def test_what_a_run_refutes(code: str, line: int, result: dict[str, Any], gone: bool) -> None:
    column = 8 if line == 14 else 4
    found = merged(static(code, line, column, column + 3), record(**result))
    assert (found.findings == ()) is gone
    assert [(r.finding.code, r.run_id) for r in found.refuted] == ([(code, "r1")] if gone else [])


def test_a_branch_that_matters_must_have_run_on_both_sides() -> None:
    finding = static("DG303", 15, 15, 24)
    assert merged(finding, record(blocks=ALL_BLOCKS)).findings == ()
    assert merged(finding, record(blocks=ALL_BLOCKS - {12})).findings == (finding,)
    one_sided = TEXT.replace("    else:\n        x = x + 2\n", "\n\n")
    assert merged(finding, record(text=one_sided), Source(one_sided)).findings == (finding,)


def test_a_loop_that_was_cut_short_proves_nothing_of_what_follows() -> None:
    data = {"truncated": [{"line": 13, "iterations": 3}]}
    inside, after = static("DG101", 14, 8, 18), static("DG101", 15)
    assert merged(inside, record(data=data)).findings == ()
    assert merged(after, record(data=data)).findings == (after,)


def test_invented_conditions_prove_nothing() -> None:
    finding = static("DG101", 14, 8, 18)
    run = record()
    searched = replace(
        run, plan=replace(run.plan, arguments=tuple(replace(a, source="search") for a in run.plan.arguments))
    )
    assert merged(finding, searched).findings == (finding,)
    assert merged(finding, record(options=RunOptions(instruments=("shapes",)))).findings == (finding,)
    called = TEXT.replace("# dry-run: x=torch.ones(3, requires_grad=True)", "#") + "with torch.no_grad():\n    f(1)\n"
    assert merged(finding, record(text=called), Source(called)).findings == (finding,)


def test_a_record_moves_with_edits_elsewhere_and_ends_with_edits_of_what_ran() -> None:
    run = record(seen("DG101", 14, 8, 19), outcome="failed")
    above = Source(TEXT.replace("    return x\n", "    y = x\n    return y\n", 1))
    (moved,) = merge([], [run], above).findings
    assert moved.span.start == (15, 8)
    inside, after = static("DG101", 15, 8, 18), static("DG101", 16)
    passed = record(data={"truncated": [{"line": 13, "iterations": 3}]})
    assert merge([inside, after], [passed], above).findings == (after,)
    changed = Source(TEXT.replace("x.exp()", "x.exp() + 1"))
    assert merge([], [run], changed) == Merged(())
    assert merge([], [run], Source("def f(:\n")) == Merged(())


def test_what_is_told_where_it_began_is_not_told_where_it_fails() -> None:
    began = replace(seen("DG203", 8), related=(Related("it fails here", Span.of(10, 8, 10, 17)),))
    fails = seen("DG205", 10, 8, 17)
    both = merge([static("DG205", 10, 8, 17)], [record(began), record(fails)], SOURCE)
    assert [(f.code, f.span.start.line) for f in both.findings] == [("DG203", 8)]
    other = merge([static("DG402", 10, 8, 17)], [record(began)], SOURCE)
    assert [(f.code, f.span.start.line) for f in other.findings] == [("DG203", 8), ("DG402", 10)]


def test_an_error_that_nobody_could_explain_confirms_the_one_that_the_text_foretells() -> None:
    foretold = replace(static("DG740", 14), severity="error")
    result = merged(foretold, record(seen("DG907", 14), outcome="failed"))
    (finding,) = result.findings
    assert (finding.code, finding.status, finding.message, finding.detail) == (
        "DG740",
        "confirmed",
        "may fail",
        "torch says",
    )
    assert len(merged(static("DG740", 14), record(seen("DG907", 14), outcome="failed")).findings) == 2


@pytest.mark.parametrize(
    ("verdicts", "together"),
    [((None, True), True), ((True, None), True), ((True, False), False), ((None, False), False), ((None, None), None)],
)
def test_what_several_runs_say_of_a_fix_is_one_verdict(
    verdicts: tuple[bool | None, ...], together: bool | None
) -> None:
    finding = static("DG803", 8)
    tried = [replace(finding, fixes=(replace(finding.fixes[0], verified=verdict),)) for verdict in verdicts]
    runs = [replace(record(), possible=(each,)) for each in tried]
    (told,) = merge([finding], runs, SOURCE).findings
    assert [fix.verified for fix in told.fixes] == [together]
    by_runs = [replace(seen("DG803", 8), fixes=each.fixes) for each in tried]
    (told,) = merge([], [record(each, outcome="failed") for each in by_runs], SOURCE).findings
    assert [fix.verified for fix in told.fixes] == [together]


def test_a_fix_that_another_run_has_verified_comes_first() -> None:
    finding = static("DG803", 8)
    other = replace(finding.fixes[0], title="Another", edits=(Edit(finding.span, "otherwise"),), safety="unsafe")
    both = replace(finding, fixes=(finding.fixes[0], other))
    tried = replace(both, fixes=(finding.fixes[0], replace(other, verified=True)))
    (told,) = merge([both], [replace(record(), possible=(each,)) for each in (both, tried)], SOURCE).findings
    assert [fix.title for fix in told.fixes] == ["Another", "Fix it"]


CALLED = """\
import torch

def ratio(x, total):
    if total is None:
        total = x.sum()
    return x / total

if __name__ == "__main__":
    print(ratio(torch.ones(3), None))
"""


def invented(*findings: Finding, **result: Any) -> Record:
    found = plan(CALLED, "ratio")
    given: dict[str, Any] = {"device": "sim", "outcome": "passed", **result}
    return Record("r1", replace(found, proposal=Proposal({}, frozenset())), Result(**given), findings)


def of_program(**result: Any) -> Record:
    given: dict[str, Any] = {"device": "sim", "outcome": "passed", "blocks": frozenset({4, 5, 9}), **result}
    return Record("r2", plan(CALLED, None), Result(**given))


def test_what_invented_inputs_show_yields_to_a_run_of_the_program() -> None:
    source, fault = Source(CALLED), seen("DG402", 6)
    assert merge([], [invented(fault), of_program()], source).findings == ()
    for other in (
        of_program(outcome="failed"),
        of_program(device="cpu"),
        of_program(blocks=frozenset({9})),
        replace(of_program(), plan=replace(of_program().plan, partial=True)),
        invented(),
    ):
        assert merge([], [invented(fault), other], source).findings == (fault,)


def test_what_does_not_depend_on_invented_inputs_does_not_yield() -> None:
    fault = seen("DG101", 6)
    assert merge([], [invented(fault), of_program()], Source(CALLED)).findings == (fault,)


def test_a_fault_of_inputs_that_were_not_prepared_yields_too() -> None:
    fault = seen("DG907", 6)
    own = Record("r1", plan(CALLED, "ratio"), Result("failed", device="sim"), (fault,))
    assert merge([], [own, of_program()], Source(CALLED)).findings == (fault,)
    unprepared = replace(own, plan=replace(own.plan, partial=True))
    assert merge([], [unprepared, of_program()], Source(CALLED)).findings == ()


ROUND_TRIP = Finding("DG206", "device-round-trip", "to the CPU and back", "hint", Span.of(8, 4, 8, 15))


@pytest.mark.parametrize(
    ("rows", "set_by_user", "severity"),
    [
        ([("d2h", 8, 3), ("h2d", 8, 3)], {}, "info"),
        ([("d2h", 8, 1)], {}, "hint"),  # once may be a matter of setting up
        ([("d2h", 9, 3)], {}, "hint"),  # another line's
        ([("sync", 8, 3)], {}, "hint"),  # another cost than the rule's
        ([("d2h", 8, 3)], {"DG2": "hint"}, "hint"),
        ([], {}, "hint"),
    ],
)
def test_a_hint_whose_cost_a_run_has_counted_is_an_info(
    rows: list[tuple[str, int, int]], set_by_user: dict[str, Any], severity: str
) -> None:
    run = record()
    path = str(run.plan.path)
    syncs = [{"path": path, "line": line, "kind": kind, "op": "op", "count": count} for kind, line, count in rows]
    counted = replace(run.result, data={"syncs": syncs})
    costs = Costs.of(counted, run.plan.path, Settings(severity=set_by_user))
    (finding,) = merged(ROUND_TRIP, replace(run, costs=costs)).findings
    assert finding.severity == severity
    assert (finding.detail is not None) == (severity == "info")


def test_a_cost_moves_with_its_line() -> None:
    run = replace(record(), costs=Costs(((8, "d2h", 2), (8, "h2d", 2)), frozenset({"DG206"})))
    below = Source("# one more line\n" + TEXT)
    (finding,) = merged(replace(ROUND_TRIP, span=Span.of(9, 4, 9, 15)), run, below).findings
    assert finding.detail == "measured in a run: copied to the host 2 times, copied to the device 2 times"
