"""Probabilities of a single class are reported where they are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import said, spots, watch

from drygrad.worker.instruments.memory import Memory
from drygrad.worker.instruments.single_class import SingleClass

SETUP = "one, two = nn.Linear(3, 1)(torch.randn(8, 3)), nn.Linear(3, 2)(torch.randn(8, 3))\n"


@pytest.mark.parametrize(
    "program",
    [
        "one.softmax(1)",
        "F.log_softmax(one, dim=-1)",
        "one.argmax(dim=1)",
        "nn.CrossEntropyLoss()(one, torch.zeros(8, dtype=torch.long))",
        "nn.Conv2d(3, 1, 1)(torch.randn(2, 3, 4, 4)).softmax(1)",
        "nn.Linear(3, 1)(torch.randn(2, 4, 3)).softmax(-1)",
    ],
)
def test_one_class(tmp_path: Path, program: str) -> None:
    assert spots(watch(tmp_path, SETUP + program, Memory, SingleClass)) == [("DG326", 2)]


@pytest.mark.parametrize(
    "program",
    [
        "two.softmax(1)",
        "one.softmax(0)",
        "torch.randn(8, 1).softmax(1)",
        "nn.Linear(3, 1)(torch.randn(2, 4, 3)).softmax(1)",
        "(torch.randn(2, 5, 3) @ torch.randn(2, 3, 1)).softmax(-1)",
        "one.sigmoid()",
    ],
)
def test_more_than_one(tmp_path: Path, program: str) -> None:
    assert said(watch(tmp_path, SETUP + program, Memory, SingleClass)) == []
