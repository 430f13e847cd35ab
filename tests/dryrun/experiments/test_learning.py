"""It learns: a step of training is called with the same inputs again and again, and its loss is followed."""

from __future__ import annotations

import re

import pytest
from step_pairs import LEARNT, NOT_LEARNT, NOT_TO_FALL
from verify_lab import Lab, written

CODE = "DG937"


def outcome(lab: Lab, program: str) -> tuple[str, list[tuple[int, str]]]:
    record = lab.experimented(written(program), "step", CODE)
    assert record.result.outcome == "passed", record.result.notes
    (tried,) = record.result.tried
    faults = [fault for fault in record.result.faults if fault.code == CODE]
    return tried.outcome, [(fault.at.line, fault.message) for fault in faults if fault.at]


@pytest.mark.parametrize("case", NOT_LEARNT)
def test_a_loss_that_steps_do_not_lessen_is_told_at_its_backward(case: str, lab: Lab) -> None:
    program, words = NOT_LEARNT[case]
    found, told = outcome(lab, program)
    line = next(n for n, line in enumerate(written(program).lines, 1) if "loss.backward()" in line)
    assert (found, [at for at, _ in told]) == ("broken", [line])
    assert re.search(words, told[0][1])


@pytest.mark.parametrize("case", LEARNT)
def test_a_loss_that_falls_slowly_or_wavers_is_no_fault(case: str, lab: Lab) -> None:
    assert outcome(lab, LEARNT[case]) == ("held", [])


@pytest.mark.parametrize("case", NOT_TO_FALL)
def test_what_need_not_fall_is_not_tried(case: str, lab: Lab) -> None:
    assert outcome(lab, NOT_TO_FALL[case]) == ("not-tried", [])


IDLE = """
    class Trainer:
        def __init__(self):
            self.model = nn.Linear(3, 1)
            self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

        def step(self, x):
            \"\"\"x: (batch, 3)\"\"\"
            loss = {}
            loss.backward()
            self.optimizer.step()
            return loss.item()
    """


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("torch.tensor(self.model(x).mean().item(), requires_grad=True)", [("DG738", "info")]),
        ("self.model(x).mean()", []),
    ],
)
def test_an_optimizer_that_no_loss_reaches_is_told_whatever_the_inputs_are(
    loss: str, told: list[tuple[str, str]], lab: Lab
) -> None:
    record = lab.experimented(written(IDLE.replace("{}", loss)), "Trainer.step", CODE)
    assert [(f.code, f.severity) for f in record.findings if f.code == "DG738"] == told
    (tried,) = record.result.tried
    assert (tried.outcome == "broken") == bool(told)
