"""Steps forget: a step of training, or a module's forward with a backward behind it, is called several times."""

from __future__ import annotations

import pytest
from step_pairs import FORGOTTEN, LEFT, OF_CALLERS
from verify_lab import Lab, written

CODE = "DG931"


def outcome(lab: Lab, program: str, *, owed: bool = True) -> tuple[str, set[tuple[str, int]]]:
    """Return what came of the relation, and where it was broken, under which codes."""
    name = "step"
    if "class " in program:
        name = program.split("class ", maxsplit=1)[1].replace(":", "(").split("(", maxsplit=1)[0]
        name += ".forward" if "nn.Module" in program else ".step"
    record = lab.experimented(written(program), name, CODE)
    assert record.result.outcome == "passed", record.result.notes
    (tried,) = record.result.tried
    assert (tried.outcome == "not-tried") is not owed, tried.why
    faults = record.result.faults
    return tried.outcome, {(f.code, f.at.line) for f in faults if f.facts.get("relation") == CODE and f.at}


@pytest.mark.parametrize("case", LEFT)
def test_what_a_step_leaves_is_told_where_it_is_kept_or_made(case: str, lab: Lab) -> None:
    pair = LEFT[case]
    text = pair.program.replace("{}", pair.broken)
    found, told = outcome(lab, text)
    line = next(n for n, line in enumerate(written(text).lines, 1) if pair.broken in line)
    assert (found, (pair.code, line) in told) == ("broken", True), told
    assert outcome(lab, pair.program.replace("{}", pair.right)) == ("held", set())


@pytest.mark.parametrize("case", FORGOTTEN)
def test_what_carries_no_graph_on_is_no_fault(case: str, lab: Lab) -> None:
    assert outcome(lab, FORGOTTEN[case]) == ("held", set())


@pytest.mark.parametrize("case", OF_CALLERS)
def test_what_callers_renew_is_not_tried(case: str, lab: Lab) -> None:
    assert outcome(lab, OF_CALLERS[case], owed=False) == ("not-tried", set())
