"""Samples stand alone: a module in evaluation, called with one sample changed."""

from __future__ import annotations

import pytest
from relation_pairs import SAMPLES, STAND_ALONE, UNDECIDED
from verify_lab import Lab, written

CODE = "DG923"


def outcome(lab: Lab, program: str) -> tuple[str, list[int]]:
    record = lab.experimented(written(program), target_of(program), CODE)
    assert record.result.outcome == "passed", record.result.notes
    (tried,) = record.result.tried
    lines = [finding.span.start.line for finding in record.findings if finding.code == CODE]
    return tried.outcome, lines


def target_of(program: str) -> str:
    return program.split("class ", maxsplit=1)[1].split("(", maxsplit=1)[0] + ".forward"


@pytest.mark.parametrize("case", SAMPLES)
def test_an_operation_over_the_batch_is_told_at_its_line(case: str, lab: Lab) -> None:
    pair = SAMPLES[case]
    text = pair.program.replace("{}", pair.broken)
    told = outcome(lab, text)
    mark = "# here" if "# here" in text else pair.broken
    assert told == ("broken", [next(n for n, line in enumerate(written(text).lines, 1) if mark in line)])


@pytest.mark.parametrize("case", SAMPLES)
def test_its_repaired_twin_holds(case: str, lab: Lab) -> None:
    pair = SAMPLES[case]
    assert outcome(lab, pair.program.replace("{}", pair.right)) == ("held", [])


@pytest.mark.parametrize("case", STAND_ALONE)
def test_layers_that_keep_samples_apart_hold(case: str, lab: Lab) -> None:
    assert outcome(lab, STAND_ALONE[case]) == ("held", [])


@pytest.mark.parametrize("case", UNDECIDED)
def test_what_no_layer_calls_a_batch_is_not_tried(case: str, lab: Lab) -> None:
    assert outcome(lab, UNDECIDED[case]) == ("not-tried", [])
