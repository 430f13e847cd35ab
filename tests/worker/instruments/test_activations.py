"""Losses that get probabilities are found, whatever lies between; those that want them are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import related, said, spots, watch

from drygrad.worker.instruments.activations import Activations
from drygrad.worker.instruments.memory import Memory

NET = """\
class Net(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.fc, self.last = nn.Linear(3, 4), last

    def forward(self, x):
        return self.last(self.fc(x))

x, y, q = torch.randn(8, 3), torch.randint(0, 4, (8,)), torch.rand(8, 4)
scores = nn.Linear(3, 4)(x)
"""
LINES = NET.count("\n")

FAULTS = {
    "F.cross_entropy(scores.softmax(1), y)": "DG304",
    "nn.CrossEntropyLoss()(scores.softmax(1), y)": "DG304",
    "F.cross_entropy(scores.softmax(1).reshape(2, 4, 4).reshape(8, 4), y)": "DG304",
    "F.binary_cross_entropy_with_logits(scores.sigmoid(), q)": "DG305",
    "nn.BCEWithLogitsLoss()(torch.sigmoid(scores), q)": "DG305",
    "F.cross_entropy(scores.softmax(1) @ torch.eye(4), y)": "DG304",
    "F.cross_entropy(scores.exp() / scores.exp().sum(1, keepdim=True), y)": "DG304",
    "F.cross_entropy(scores.sigmoid(), y)": "DG328",
    "F.cross_entropy(scores.relu(), y)": "DG328",
    "F.binary_cross_entropy_with_logits(scores.tanh(), q)": "DG328",
    "F.binary_cross_entropy(scores.softmax(1), torch.ones(8, 4))": "DG328",
    "F.nll_loss(scores.softmax(1), y)": "DG308",
    "F.nll_loss(scores.log_softmax(0), y)": "DG334",
    "F.kl_div(scores.softmax(1), q)": "DG311",
    "F.kl_div(scores.log_softmax(1).exp(), q)": "DG311",
}

MEANT = [
    "F.cross_entropy(scores, y)",
    "F.cross_entropy(scores.log_softmax(1), y)",
    "F.cross_entropy(F.one_hot(y, 4).float(), y)",
    "F.cross_entropy(scores.softmax(1) @ torch.randn(4, 4), y)",
    "F.cross_entropy(scores, scores.softmax(1).detach())",
    "F.cross_entropy(scores.softmax(1) * 30, y)",
    "F.cross_entropy(10 * scores.tanh(), y)",
    "F.cross_entropy(F.leaky_relu(scores), y)",
    "F.cross_entropy(scores.softmax(1).log_(), y)",
    "F.cross_entropy(torch.rand(8, 4), y)",
    "scores.softmax(1).log_softmax(1)",
    "F.binary_cross_entropy_with_logits(scores, q)",
    "F.binary_cross_entropy(scores.sigmoid(), q)",
    "F.binary_cross_entropy(scores.softmax(1), F.one_hot(y, 4).float())",
    "F.nll_loss(scores.log_softmax(1), y)",
    "F.nll_loss((scores.softmax(1) + 1e-6).log(), y)",
    "F.kl_div(scores.log_softmax(1), q.softmax(1))",
]


@pytest.mark.parametrize("program", FAULTS)
def test_probabilities_where_logits_are_wanted(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, NET + program, Memory, Activations)
    assert [place for place in spots(run) if place[0] != "DG410"] == [(FAULTS[program], LINES + 1)]


@pytest.mark.parametrize("program", MEANT)
def test_losses_that_get_what_they_want(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, NET + program, Memory, Activations)
    assert "error" not in run.result
    assert said(run) == []


def test_an_activation_of_another_function_is_where_it_has_to_go(tmp_path: Path) -> None:
    run = watch(tmp_path, NET + "F.cross_entropy(Net(nn.Softmax(dim=1))(x), y)", Memory, Activations)
    assert spots(run) == [("DG304", 7)]
    assert related(run.faults[0]) == {"passed to cross_entropy here": LINES + 1}


def test_an_activation_of_the_same_function_is_where_the_loss_is(tmp_path: Path) -> None:
    run = watch(tmp_path, NET + "p = scores.softmax(1)\nF.cross_entropy(p, y)", Memory, Activations)
    assert spots(run) == [("DG304", LINES + 2)]
    assert related(run.faults[0]) == {"softmax is applied here": LINES + 1}
