"""Padding that counts in a loss is found where the loss is to be told of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import related, said, spots, watch

from drygrad.worker.instruments.construction import Construction
from drygrad.worker.instruments.memory import Memory
from drygrad.worker.instruments.padding import Padding

PADDED = """\
from torch.nn.utils.rnn import pad_sequence
ids = pad_sequence([torch.tensor([1, 2, 3, 4]), torch.tensor([4, 2])], batch_first=True{value})
scores = torch.randn(2, 5, 3)
"""
FAULTS = {
    "F.cross_entropy(scores, ids[:, 1:])": ("DG319", 4, "2 of 6 targets are 0, the padding"),
    "F.cross_entropy(scores.transpose(1, 2).flatten(0, 1), ids[:, 1:].flatten())": ("DG319", 4, "ignore_index=0"),
    "F.nll_loss(scores.log_softmax(1), ids.clone()[:, 1:], reduction='sum')": ("DG319", 4, "2 of 6"),
    "ids = torch.stack([F.pad(torch.tensor([1, 2]), (0, 1)), torch.tensor([1, 2, 3])])\nF.cross_entropy(scores, ids)": (
        "DG319",
        5,
        "1 of 6",
    ),
}
RIGHT = [
    "F.cross_entropy(scores, ids[:, 1:], ignore_index=0)",
    "(F.cross_entropy(scores, ids[:, 1:], reduction='none') * (ids[:, 1:] != 0)).sum()",
    "F.cross_entropy(scores, ids[:, 1:].masked_fill(ids[:, 1:] == 0, -100))",
    "ids[ids == 0] = -100\nF.cross_entropy(scores, ids[:, 1:])",
    "keep = ids[:, 1:] != 0\nF.cross_entropy(scores.transpose(1, 2)[keep], ids[:, 1:][keep])",
    "F.cross_entropy(scores, ids[:, 1:], weight=torch.tensor([0.0, 1, 1, 1, 1]))",
    "F.cross_entropy(scores[:1], ids[:1, 1:])",
]


@pytest.mark.parametrize("program", FAULTS)
def test_padding_counts(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, PADDED.format(value="") + program, Memory, Padding)
    code, line, words = FAULTS[program]
    assert spots(run) == [(code, line)]
    assert words in said(run)[0][1]


@pytest.mark.parametrize("program", RIGHT)
def test_padding_does_not_count(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, PADDED.format(value="") + program, Memory, Padding)
    assert "error" not in run.result
    assert spots(run) == []


def test_a_value_that_losses_ignore(tmp_path: Path) -> None:
    program = PADDED.format(value=", padding_value=-100") + "F.cross_entropy(scores, ids[:, 1:])"
    assert spots(watch(tmp_path, program, Memory, Padding)) == []


def test_a_loss_that_was_made_elsewhere(tmp_path: Path) -> None:
    program = PADDED.format(value="") + "criterion = nn.CrossEntropyLoss()\ncriterion(scores, ids[:, 1:])"
    run = watch(tmp_path, program, Construction, Memory, Padding)
    assert spots(run) == [("DG319", 4)]
    assert related(run.faults[0]) == {"the padded targets are passed here": 5}
