"""What a verified fix keeps: every value and effect that was right before it."""

from __future__ import annotations

import pytest
from verify_lab import Lab, written

pytest.importorskip("torch")

AVERAGED = """
def update(average: nn.Module, model: nn.Module):
    with torch.no_grad():
        for held, new in zip(average.state_dict().values(), model.state_dict().values()):
            held.lerp_(new, 0.1)

update(nn.Linear(3, 3), nn.Linear(3, 3).cuda())
"""


def test_the_target_of_a_write_in_place_stays_and_the_other_operand_is_moved(lab: Lab) -> None:
    source = written(AVERAGED)
    (finding,) = lab.tried(source, "update")
    assert finding.code == "DG205"
    assert [(fix.edits[0].new_text, fix.verified) for fix in finding.fixes] == [("new.to(held.device)", True)]


PREDICTED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return torch.sigmoid(self.fc(x))

def train(epochs):
    model, criterion = Net(), nn.CrossEntropyLoss()
    for data, label in loader:
        criterion(model(data), label).backward()

train(1)
"""


@pytest.mark.parametrize("qualname", ["Net.forward", "train", None])
def test_nothing_is_verified_of_a_fault_whose_statement_never_ran(lab: Lab, qualname: str | None) -> None:
    found = lab.tried(written(PREDICTED), qualname)
    fixes = [fix for finding in found if finding.code == "DG328" for fix in finding.fixes]
    assert [fix.verified for fix in fixes] == [None]
