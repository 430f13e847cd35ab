"""Evaluation repeats and leaves no trace: a module in evaluation, called again with the same inputs."""

from __future__ import annotations

import pytest
from relation_pairs import CACHES, EVALUATION, NOISE, TRACES, Pair
from verify_lab import Lab, written

REPEATS, NO_TRACE = "DG925", "DG926"


def outcome(lab: Lab, program: str, code: str) -> tuple[str, list[int]]:
    name = program.split("class ", maxsplit=1)[1].split("(", maxsplit=1)[0]
    record = lab.experimented(written(program), f"{name}.forward", code)
    assert record.result.outcome == "passed", record.result.notes
    (tried,) = record.result.tried
    lines = [f.span.start.line for f in record.findings if f.code in (code, "DG743") and f.run]
    return tried.outcome, lines


def line_of(pair: Pair, text: str) -> int:
    mark = "# here" if "# here" in text else pair.broken
    return next(n for n, line in enumerate(written(text).lines, 1) if mark in line)


@pytest.mark.parametrize("case", EVALUATION)
def test_what_differs_from_call_to_call_is_told_at_its_line(case: str, lab: Lab) -> None:
    pair = EVALUATION[case]
    text = pair.program.replace("{}", pair.broken)
    assert outcome(lab, text, REPEATS) == ("broken", [line_of(pair, text)])
    assert outcome(lab, pair.program.replace("{}", pair.right), REPEATS) == ("held", [])


@pytest.mark.parametrize("case", TRACES)
def test_what_evaluation_changes_is_told_where_it_is_written(case: str, lab: Lab) -> None:
    pair = TRACES[case]
    text = pair.program.replace("{}", pair.broken)
    assert outcome(lab, text, NO_TRACE) == ("broken", [line_of(pair, text)])
    assert outcome(lab, pair.program.replace("{}", pair.right), NO_TRACE) == ("held", [])


def test_dropout_is_told_before_state_and_state_that_is_written_once(lab: Lab) -> None:
    program = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(6))

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                self.mean.lerp_(x.mean(0), 0.1)
                return {}
        """
    assert outcome(lab, program.replace("{}", "F.dropout(x - self.mean)"), REPEATS) == ("broken", [12])
    assert outcome(lab, program.replace("{}", "x - self.mean"), REPEATS) == ("not-tried", [])


@pytest.mark.parametrize("case", NOISE)
def test_noise_that_the_text_asks_for_is_no_fault(case: str, lab: Lab) -> None:
    assert outcome(lab, NOISE[case], REPEATS) == ("not-tried", [])


@pytest.mark.parametrize("case", CACHES)
def test_caches_and_the_layers_of_torch_hold(case: str, lab: Lab) -> None:
    assert outcome(lab, CACHES[case], REPEATS) == ("held", [])
    assert outcome(lab, CACHES[case], NO_TRACE) == ("held", [])
