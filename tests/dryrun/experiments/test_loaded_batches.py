"""Batches that a loader has stacked: what is a sample is told by no text and no layer."""

from __future__ import annotations

import pytest
from plan_harness import plan
from verify_lab import Lab, written

from drygrad.dryrun.inputs.loaded import is_stacked_by_loader

PROGRAM = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)
        self.lstm = nn.LSTM(4, 8{layout})

    def forward(self, words):
        states, _ = self.lstm(self.table(words))
        return states


def evaluate(model, batches):
    with torch.no_grad():
        for words, labels in batches:
            {moved}
            model(words)


data = TensorDataset(torch.arange(72).view(12, 6) % 9, torch.zeros(12))
shuffled = DataLoader(data, {shuffled})
evaluate(Reader(), DataLoader(data, {loader}))
"""
USUAL = {
    "layout": "",
    "moved": "words, labels = words.to('cpu'), labels.to('cpu')",
    "shuffled": "4, shuffle=True",
    "loader": "batch_size=4",
}


def program(**changed: str) -> str:
    return PROGRAM.format(**{**USUAL, **changed})


CASES: dict[str, tuple[dict[str, str], bool]] = {
    "the default": ({}, True),
    "a batch that is not moved": ({"moved": "pass"}, True),
    "a size by position": ({"loader": "4"}, True),
    "a size that is a name": ({"loader": "len(data) // 3"}, True),
    "batches that are laid out otherwise": ({"moved": "words = words.t()"}, False),
    "an order that may matter": ({"shuffled": "4"}, False),
    "a function that stacks": ({"loader": "4, collate_fn=list"}, False),
    "single samples": ({"loader": "batch_size=1"}, False),
    "no batches": ({"loader": "batch_size=None"}, False),
    "the default size": ({"loader": "num_workers=0"}, False),
    "batches of one size": ({"loader": "4, drop_last=True"}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_loader_that_stacks_samples_without_an_order_tells_that_they_are_samples(case: str) -> None:
    changed, stacked = CASES[case]
    assert is_stacked_by_loader(plan(program(**changed), "Reader.forward")) is stacked


def outcome(lab: Lab, text: str) -> tuple[str, list[tuple[str, str]]]:
    record = lab.experimented(written(text), "Reader.forward", "DG923")
    (tried,) = record.result.tried
    return tried.outcome, [(f.code, f.severity) for f in record.findings if f.code == "DG923"]


@pytest.mark.slow
def test_samples_of_a_loader_do_not_meet_in_a_layer_that_takes_time_first(lab: Lab) -> None:
    assert outcome(lab, program()) == ("broken", [("DG923", "info")])
    assert outcome(lab, program(layout=", batch_first=True")) == ("held", [])
    assert outcome(lab, program(loader="len(data) // 12")) == ("not-tried", [])
