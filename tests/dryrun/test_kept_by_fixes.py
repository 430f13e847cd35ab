"""What a verified fix keeps: every value and effect that was right before it."""

from __future__ import annotations

import pytest
from verify_lab import Lab, verdict, written

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


HOMOGENEOUS = """
def from_homogeneous(points: torch.Tensor):
    z = points[..., -1:]
    return points[..., :-1] / z

from_homogeneous(torch.tensor([[1.0, 2.0, -1.0], [1.0, 1.0, 0.0]]))
"""


def test_a_denominator_keeps_its_sign(lab: Lab) -> None:
    found = lab.tried(written(HOMOGENEOUS), "from_homogeneous", severities=("error", "warning", "info"))
    fixes = [fix for finding in found if finding.code == "DG402" for fix in finding.fixes if fix.verified]
    texts = [fix.edits[0].new_text for fix in fixes]
    assert "torch.where(z == 0, 1e-8, z)" in texts
    assert not any("clamp" in text for text in texts)


@pytest.mark.parametrize(
    ("repair", "holds"),
    [
        ("z.clamp(min=1e-8)", False),
        ("torch.where(z == 0, 1e-8, z)", True),
        ("torch.where(z == 0, 1e-8, 2 * z)", False),
        ("z.abs().clamp(min=1e-8)", False),
    ],
)
def test_what_was_finite_stays_as_it_was(lab: Lab, repair: str, holds: bool) -> None:
    assert verdict(lab, HOMOGENEOUS, "/ z", f"/ {repair}", "from_homogeneous") is holds


COUNTED = """
class Meter:
    def __init__(self):
        self.total, self.seen = torch.zeros(2), []

def add(meter, buffer, values):
    scale = values / values.abs().sum()
    buffer.add_(values)
    meter.total = meter.total + values
    meter.seen.append(1)
    return scale

add(Meter(), torch.zeros(2), torch.zeros(2))
"""


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ("values.abs().sum()\n", "(values.abs().sum() + 1e-8)\n", True),
        ("values.abs().sum()\n    buffer.add_(values)\n", "(values.abs().sum() + 1e-8)\n    buffer + values\n", False),
        ("values.abs().sum()\n    buffer.add_", "(values.abs().sum() + 1e-8)\n    buffer.clone().add_", False),
    ],
)
def test_what_the_target_changes_is_still_changed(lab: Lab, old: str, new: str, holds: bool) -> None:
    assert verdict(lab, COUNTED, old, new, "add") is holds


UPDATED = """
def step(layer, x):
    with torch.no_grad():
        layer.weight.mul_(0.5)
        layer.bias.lerp_(x.cuda(), 0.1)

step(nn.Linear(2, 2), torch.ones(2))
"""


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ("x.cuda()", "x", True),
        ("layer.bias.lerp_(x.cuda()", "layer.bias.cuda().lerp_(x.cuda()", False),
        ("layer.weight.mul_(0.5)\n        layer.bias.lerp_(x.cuda()", "layer.bias.lerp_(x", False),
    ],
)
def test_a_write_that_the_fault_prevented_or_preceded_must_happen(lab: Lab, old: str, new: str, holds: bool) -> None:
    assert verdict(lab, UPDATED, old, new, "step") is holds


PLAYERS = """
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, seen):
        return self.layer(seen)

def train():
    maker, judge = nn.Linear(2, 2), Judge()
    first = torch.optim.SGD(judge.parameters(), lr=0.1)
    second = torch.optim.SGD(maker.parameters(), lr=0.1)
    made = torch.tanh(maker(torch.ones(3, 2)))
    loss = judge(made).tanh().mean()
    loss.backward()
    first.step()
    second.zero_grad()
    judge(made).mean().backward()
    second.step()

train()
"""


def test_what_the_first_of_two_losses_is_given_is_detached_and_the_second_keeps_its_graph(lab: Lab) -> None:
    (finding,) = lab.tried(written(PLAYERS), "train")
    assert finding.code == "DG113"
    fixed = [fix.title for fix in finding.fixes if fix.verified]
    assert fixed[0] == "Pass `made.detach()`"
