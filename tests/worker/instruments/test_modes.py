"""Frozen parts that go back to training mode with the whole; those that are meant to are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import the_fault, watch

from drygrad.worker.instruments.modes import Modes

PROGRAM = """
class Whole(nn.Module):
    def __init__(self, teacher):
        super().__init__()
        self.student = nn.Linear(3, 2)
        self.teacher = teacher.eval().requires_grad_(False)
    def forward(self, x):
        return F.mse_loss(self.student(x), self.teacher(x))
whole = Whole(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
optimizer = torch.optim.SGD(whole.student.parameters(), 0.1)
for epoch in range(2):
    whole.train()
    optimizer.zero_grad()
    whole(torch.randn(4, 3)).backward()
    optimizer.step()
    whole.eval()
"""

MEANT = {
    "put back": ("whole.train()", "whole.train(); whole.teacher.eval()"),
    "the student only": ("whole.train()", "whole.student.train()"),
    "put back by the module": (
        "    def forward",
        "    def train(self, mode=True):\n        super().train(mode)\n        self.teacher.eval()\n    def forward",
    ),
    "not frozen": (".requires_grad_(False)", ""),
    "no layer with a mode": ("nn.BatchNorm1d(2)", "nn.ReLU()"),
    "no dropout": ("nn.BatchNorm1d(2)", "nn.Dropout(0.0)"),
    "never in evaluation mode": ("teacher.eval()", "teacher"),
    "switched by itself": ("whole.train()", "whole.train(); whole.teacher.train()"),
    "evaluated between": ("teacher.eval().requires_grad_(False)", "teacher.requires_grad_(False)"),
}


def test_the_whole_switches_its_frozen_part(tmp_path: Path) -> None:
    the_fault(watch(tmp_path, PROGRAM, Modes), "DG769", 12, "its BatchNorm1d is active again")


def test_a_part_of_a_model_that_is_frozen_outside_of_it(tmp_path: Path) -> None:
    text = """
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1)), nn.Linear(4, 2))
    model[0].eval()
    for p in model[0].parameters():
        p.requires_grad = False
    for epoch in range(2):
        model.train()
        model(torch.randn(4, 3)).mean().backward()
    """
    the_fault(watch(tmp_path, text, Modes), "DG769", 7, "its Dropout is active again")


@pytest.mark.parametrize(("old", "new"), MEANT.values(), ids=list(MEANT))
def test_what_is_meant_so_is_left_alone(tmp_path: Path, old: str, new: str) -> None:
    run = watch(tmp_path, PROGRAM.replace(old, new), Modes)
    assert "error" not in run.result
    assert run.faults == []
