"""Calls are independent: the target is called with other inputs, alone and after another call."""

from __future__ import annotations

import pytest
from relation_pairs import CALLS, INDEPENDENT, STATEFUL
from verify_lab import Lab, written

CODE = "DG929"


def outcome(lab: Lab, program: str) -> tuple[str, list[int]]:
    is_class = "class " in program
    name = program.split("class ", maxsplit=1)[1].replace("(", ":").split(":", maxsplit=1)[0] if is_class else ""
    record = lab.experimented(written(program), f"{name}.forward" if is_class else "f", CODE)
    assert record.result.outcome == "passed", record.result.notes
    (tried,) = record.result.tried
    return tried.outcome, [finding.span.start.line for finding in record.findings if finding.code == CODE]


@pytest.mark.parametrize("case", CALLS)
def test_what_an_earlier_call_has_left_is_told_where_it_is_used(case: str, lab: Lab) -> None:
    pair = CALLS[case]
    text = pair.program.replace("{}", pair.broken)
    line = next(n for n, line in enumerate(written(text).lines, 1) if "# here" in line)
    assert outcome(lab, text) == ("broken", [line])
    assert outcome(lab, pair.program.replace("{}", pair.right)) == ("held", [])


@pytest.mark.parametrize("case", INDEPENDENT)
def test_caches_by_their_key_hold(case: str, lab: Lab) -> None:
    assert outcome(lab, INDEPENDENT[case]) == ("held", [])


@pytest.mark.parametrize("case", STATEFUL)
def test_what_keeps_something_on_purpose_is_not_tried(case: str, lab: Lab) -> None:
    assert outcome(lab, STATEFUL[case]) == ("not-tried", [])


def test_what_its_first_call_settles_is_not_tried(lab: Lab) -> None:
    program = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.lift = nn.LazyLinear(4)

            # dry-run: x=torch.randn(5, 9)
            def forward(self, x):
                return self.lift(x)
        """
    assert outcome(lab, program) == ("not-tried", [])


def test_how_many_features_there_are_its_first_call_may_settle(lab: Lab) -> None:
    program = """
        class Spread(nn.Module):
            def __init__(self):
                super().__init__()
                self.mean = None

            # dry-run: x=torch.randn(5, 9)
            def forward(self, x):
                if self.mean is None:
                    self.mean = x.new_zeros(x.size(1))
                return (x - self.mean).sum()
        """
    assert outcome(lab, program) == ("held", [])
