"""Accumulation adds up: what each backward before a step adds to the gradient is weighed."""

from __future__ import annotations

import pytest
from accumulation_pairs import ADDS_UP, NO_ACCUMULATION, TOLD_AT, UNEVEN
from verify_lab import Lab, written

CODE = "DG932"


def outcome(lab: Lab, program: str) -> tuple[str, list[int]]:
    record = lab.experimented(written(program), "step", CODE)
    assert record.result.outcome == "passed", record.result.notes
    (tried,) = record.result.tried
    return tried.outcome, [fault.at.line for fault in record.result.faults if fault.code == CODE and fault.at]


@pytest.mark.parametrize("case", UNEVEN)
def test_what_does_not_add_up_is_told_at_its_line(case: str, lab: Lab) -> None:
    pair = UNEVEN[case]
    text = pair.program.replace("{}", pair.broken)
    sought = (
        TOLD_AT.get(case)
        or next(part for part in pair.program.splitlines() if "{}" in part).replace("{}", pair.broken).strip()
    )
    line = next(n for n, line in enumerate(written(text).lines, 1) if sought in line)
    assert outcome(lab, text) == ("broken", [line])
    assert outcome(lab, pair.program.replace("{}", pair.right)) == ("held", [])


@pytest.mark.parametrize("case", ADDS_UP)
def test_other_ways_to_add_up_are_no_fault(case: str, lab: Lab) -> None:
    assert outcome(lab, ADDS_UP[case]) == ("held", [])


@pytest.mark.parametrize("case", NO_ACCUMULATION)
def test_steps_of_one_backward_are_not_tried(case: str, lab: Lab) -> None:
    assert outcome(lab, NO_ACCUMULATION[case]) == ("not-tried", [])
