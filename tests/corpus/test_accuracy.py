"""The corpus: what its comments promise, and that nothing that was found is lost, and no new alarm raised.

A fixed sample is examined; with DRYGRAD_CORPUS_ALL=1, everything. `make report` records what holds.
"""

from __future__ import annotations

import ast
import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
from accuracy.examining import Examined, examine_all
from accuracy.judging import Outcome, judge, worse
from accuracy.programs import Case, cases
from accuracy.recording import recorded

from drygrad.static.registry import all_rules

CASES = cases()
EVERY = 15
SAMPLE = CASES if os.environ.get("DRYGRAD_CORPUS_ALL") else CASES[::EVERY]
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@EACH
def test_a_case_is_a_pair_of_programs_that_differ_in_a_fault(case: Case) -> None:
    for program in (case.faulty, case.fixed):
        ast.parse(program.text)
        assert not any(word in program.text for word in ("# error:", "# fault:", "# truth:", "# allowed:"))
    assert case.faulty.text != case.fixed.text
    assert case.faulty.text.splitlines()[case.line - 1].strip()
    assert case.codes <= {rule.code for rule in all_rules()}


def test_the_outcomes_of_all_cases_are_recorded() -> None:
    assert {*recorded()} == {case.name for case in CASES}


def test_half_of_the_corpus_and_each_family_is_by_authors_who_know_no_rule() -> None:
    blind = [case for case in CASES if case.origin != "informed"]
    assert {case.family for case in blind} >= {case.family for case in CASES if case.origin == "informed"}
    assert len(blind) >= len(CASES) / 2


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}

    def told(case: Case, faulty: Examined, fixed: Examined) -> None:
        found[case.name] = judge(case, faulty, fixed)

    asyncio.run(examine_all(SAMPLE, told))
    return found


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_nothing_is_lost_and_no_alarm_is_new(case: Case, outcomes: dict[str, Outcome]) -> None:
    assert worse(recorded()[case.name], outcomes[case.name]) == []


def test_what_is_lost_is_told() -> None:
    good = Outcome("line", "line", "error", "verified", refuted=False, alarms=[], remarks=["DG209 hint in line 3"])
    assert worse(good, good) == []
    assert worse(replace(good, remarks=[]), replace(good, remarks=["DG209 hint in line 9"])) == [
        "a new alarm on the fixed twin: DG209 hint"
    ]
    assert worse(good, replace(good, remarks=["DG209 hint in line 9"])) == []
    assert worse(replace(good, alarms=["DG907 error in line 3"]), replace(good, remarks=["DG907 hint in line 3"])) == []
    assert worse(good, replace(good, alarms=["DG209 warning in line 3"])) == [
        "a new alarm on the fixed twin: DG209 warning"
    ]
    assert worse(good, replace(good, static="related", fix="offered")) == [
        "found statically: line before, related now",
        "fix: verified before, offered now",
    ]


def test_a_comment_that_names_no_fault_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "blind" / "loss"
    folder.mkdir(parents=True)
    (folder / "net.py").write_text("# target: script\n# truth: It fails.\nprint()\n", encoding="utf-8")
    with pytest.raises(ValueError, match="0 lines say what the fault is"):
        cases(tmp_path)
