"""What is counted or weighed of a whole batch at once is reported where it is written; what is meant is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import said, spots, watch

from drygrad.worker.instruments.counting import Counting
from drygrad.worker.instruments.memory import Memory

SETUP = """\
scores, labels = nn.Linear(3, 5)(torch.randn(8, 3)), torch.arange(8) % 5
column, weights = torch.rand(8, 1).round(), torch.rand(8)
predicted = column.squeeze(1)
"""
LINE = SETUP.count("\n") + 1

FAULTS = {
    "(column == predicted).sum()": "DG324",
    "(column == weights).float().mean()": "DG324",
    "torch.eq(column, labels).sum().item()": "DG324",
    "(scores.argmax() == labels).sum()": "DG325",
    "labels.eq(torch.argmax(scores)).float().mean()": "DG325",
    "(F.cross_entropy(scores, labels) * weights).mean()": "DG327",
    "(weights * F.mse_loss(scores[:, 0], weights)).sum() / weights.sum()": "DG327",
    "(nn.BCEWithLogitsLoss()(scores[:, :1], column) * weights).sum()": "DG327",
}
MEANT = [
    "(column == column.squeeze(1)).sum()",
    "(labels.unsqueeze(1) == labels).sum()",
    "(column[:, None] == labels).float().mean()",
    "(column == labels)",
    "(scores.argmax(1) == labels).sum()",
    "(scores[0].argmax() == labels[0]).sum()",
    "(scores.argmax() == torch.arange(3)).sum()",
    "(F.cross_entropy(scores, labels, reduction='none') * weights).mean()",
    "(F.cross_entropy(scores, labels) * 0.5).mean()",
    "F.cross_entropy(scores, labels) * weights",
    "(scores.mean() * weights).sum()",
]


@pytest.mark.parametrize("program", FAULTS)
def test_what_a_batch_is_taken_for(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, SETUP.replace("column.squeeze(1)", "column.squeeze(1).clone()") + program, Memory, Counting)
    assert spots(run) == [(FAULTS[program], LINE)]


@pytest.mark.parametrize("program", MEANT)
def test_what_is_meant(tmp_path: Path, program: str) -> None:
    assert said(watch(tmp_path, SETUP + program, Memory, Counting)) == []
