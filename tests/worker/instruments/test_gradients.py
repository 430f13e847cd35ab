"""The norms of gradients, those that are zero throughout, and those that float16 rounds to zero."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import said, spots, watch

from drygrad.worker.instruments.gradients import Gradients
from drygrad.worker.instruments.precision import Precision

TRAINING = """
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
{before}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range({steps}):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
"""
DEAD = "nn.init.constant_(model[0].bias, -100.0)"


def test_the_norms(tmp_path: Path) -> None:
    program = "w = torch.zeros(2, requires_grad=True)\n(w * torch.tensor([3.0, 4.0])).sum().backward()\n"
    run = watch(tmp_path, program + "torch.optim.SGD([w], lr=1).step()", Gradients)
    assert run.result["gradients"] == [{"name": "w", "shape": [2], "norm": 5.0}]


def test_a_norm_that_json_has_no_word_for(tmp_path: Path) -> None:
    program = "w = torch.zeros(2, requires_grad=True)\nw.sqrt().sum().backward()\ntorch.optim.SGD([w], lr=1).step()"
    run = watch(tmp_path, program, Gradients)
    assert run.result["gradients"] == [{"name": "w", "shape": [2], "norm": None}]


HELD = """
class Trainer:
    def __init__(self):
        self.model = nn.Linear(2, 1)
        self.models = {"head": nn.Linear(2, 1, bias=False)}

    def step(self):
        (self.model(torch.ones(1, 2)) + self.models["head"](torch.ones(1, 2)) * weights[0]).sum().backward()
        torch.optim.SGD([*self.model.parameters(), *self.models["head"].parameters(), weights[0]], lr=0.1).step()

weights = [torch.ones(1, requires_grad=True)]
Trainer().step()
"""


def test_the_names_of_what_objects_hold(tmp_path: Path) -> None:
    run = watch(tmp_path, HELD, Gradients)
    names = [row["name"] for row in run.result["gradients"]]
    assert names == ["self.model.weight", "self.model.bias", "self.models['head'].weight", "weights[0]"]


def test_gradients_that_are_zero_throughout(tmp_path: Path) -> None:
    run = watch(tmp_path, TRAINING.format(before=DEAD, steps=3), Gradients)
    assert spots(run) == [("DG114", 8)]
    assert "3 of 4 parameters are exactly zero" in said(run)[0][1]
    assert "`model[0].weight`, `model[0].bias`, `model[2].weight`" in said(run)[0][1]
    assert run.faults[0].severity == "hint"


def test_a_derivative_that_is_zero_everywhere_is_told_where_it_stands(tmp_path: Path) -> None:
    program = TRAINING.format(before="", steps=3).replace("torch.ones(3, 4)).sum()", "torch.ones(3, 4)).round().sum()")
    run = watch(tmp_path, program, Gradients)
    assert spots(run) == [("DG114", 7)]
    assert said(run)[0][1].startswith("the derivative of this operation is zero everywhere; the gradients of 4 of 4")
    assert run.faults[0].severity == "warning"


@pytest.mark.parametrize(
    ("before", "steps"),
    [
        (DEAD, 1),  # a factor that begins at zero has moved after the first step
        ("model.insert(0, nn.Identity())", 3),
        ("nn.init.zeros_(model[2].weight)", 3),
    ],
)
def test_gradients_that_are_not(tmp_path: Path, before: str, steps: int) -> None:
    assert said(watch(tmp_path, TRAINING.format(before=before, steps=steps), Gradients)) == []


HALF = """
w = torch.ones(4, requires_grad=True)
h = w.half() * 2
loss = (h.float() * torch.tensor([1e-9, 1e-9, 1e-9, 1.0])).sum()
{backward}
"""


def test_gradients_that_float16_rounds_to_zero(tmp_path: Path) -> None:
    run = watch(tmp_path, HALF.format(backward="loss.backward()"), Precision)
    assert spots(run) == [("DG724", 5)]
    assert said(run)[0][1].startswith("3 of 4 gradients underflowed to zero")
    larger = HALF.replace("1e-9", "1e-3").format(backward="loss.backward()")
    assert said(watch(tmp_path, larger, Precision)) == []


def test_a_scaler_keeps_them_in_range(tmp_path: Path) -> None:
    scaled = """\
scaler = torch.amp.GradScaler("cpu")
optimizer = torch.optim.SGD([w], lr=0.1)
scaler.scale(loss).backward()
scaler.step(optimizer)
"""
    assert said(watch(tmp_path, HALF.format(backward=scaled), Precision)) == []
