"""Any batch size: a module in evaluation, called with fewer samples."""

from __future__ import annotations

import pytest
from relation_pairs import SIZES, STAND_ALONE, UNDECIDED
from verify_lab import Lab, written

CODE = "DG924"


def outcome(lab: Lab, program: str) -> tuple[str, list[int]]:
    name = program.split("class ", maxsplit=1)[1].split("(", maxsplit=1)[0]
    record = lab.experimented(written(program), f"{name}.forward", CODE)
    assert record.result.outcome == "passed", record.result.notes
    (tried,) = record.result.tried
    return tried.outcome, [finding.span.start.line for finding in record.findings if finding.code == CODE]


@pytest.mark.parametrize("case", SIZES)
def test_a_size_that_is_relied_on_is_told_at_its_line(case: str, lab: Lab) -> None:
    pair = SIZES[case]
    text = pair.program.replace("{}", pair.broken)
    mark = "# here" if "# here" in text else pair.broken
    line = next(n for n, line in enumerate(written(text).lines, 1) if mark in line)
    assert outcome(lab, text) == ("broken", [line])
    assert outcome(lab, pair.program.replace("{}", pair.right)) == ("held", [])


@pytest.mark.parametrize("case", STAND_ALONE)
def test_code_that_takes_any_batch_holds(case: str, lab: Lab) -> None:
    assert outcome(lab, STAND_ALONE[case]) == ("held", [])


@pytest.mark.parametrize("case", UNDECIDED)
def test_what_no_layer_calls_a_batch_is_not_tried(case: str, lab: Lab) -> None:
    assert outcome(lab, UNDECIDED[case])[0] == "not-tried"
