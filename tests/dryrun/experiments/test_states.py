"""State survives: the state of a module that was called in training is loaded into a new one, and both are compared."""

from __future__ import annotations

import pytest
from state_pairs import KEPT, LOST, NOT_OWED
from verify_lab import Lab, written

CODE = "DG933"


def outcome(lab: Lab, program: str) -> tuple[str, list[tuple[str, int]]]:
    """Return what came of the relation, and where it was broken, under which codes."""
    name = program.rsplit("class ", maxsplit=1)[1].split("(", maxsplit=1)[0]
    record = lab.experimented(written(program), f"{name}.forward", CODE)
    assert record.result.outcome == "passed", record.result.notes
    (tried,) = record.result.tried
    of_relation = {(f.code, f.at.line) for f in record.result.faults if f.facts.get("relation") == CODE and f.at}
    return tried.outcome, sorted(of_relation)


@pytest.mark.parametrize("case", LOST)
def test_what_a_state_lacks_is_told_where_it_is_bound(case: str, lab: Lab) -> None:
    pair = LOST[case]
    text = pair.program.replace("{}", pair.broken)
    line = next(n for n, line in enumerate(written(text).lines, 1) if pair.broken in line)
    assert outcome(lab, text) == ("broken", [(pair.code or CODE, line)])
    assert outcome(lab, pair.program.replace("{}", pair.right)) == ("held", [])


@pytest.mark.parametrize("case", KEPT)
def test_what_every_new_module_has_or_no_result_needs_is_no_fault(case: str, lab: Lab) -> None:
    assert outcome(lab, KEPT[case]) == ("held", [])


@pytest.mark.parametrize("case", NOT_OWED)
def test_what_is_not_to_be_saved_is_not_tried(case: str, lab: Lab) -> None:
    assert outcome(lab, NOT_OWED[case]) == ("not-tried", [])


def test_a_buffer_that_is_saved_is_a_fix_that_holds(lab: Lab) -> None:
    pair = LOST["frequencies that are drawn"]
    record = lab.experimented(written(pair.program.replace("{}", pair.broken)), "Fourier.forward", CODE)
    assert lab.verdict_on(record, pair.broken, pair.right) is True
    unsaved = pair.right[:-1] + ", persistent=False)"
    assert lab.verdict_on(record, pair.broken, unsaved) is False
