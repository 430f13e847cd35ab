"""Indices and probabilities outside their range are named with value, position and bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import said, watch

from drygrad.worker.instruments.index_ranges import DeviceAssert, IndexRanges

FAULTS = {
    "scores, target = torch.randn(4, 5), torch.tensor([0, 1, 5, 2])\nF.cross_entropy(scores, target)": (
        "DG302",
        "`target[2]` = 5 is outside [0, 5): the model has 5 classes",
    ),
    "target = torch.tensor([[0, 1, 2], [3, 4, 7]])\nF.cross_entropy(torch.randn(2, 5, 3), target)": (
        "DG302",
        "`target[1, 2]` = 7 is outside [0, 5): the model has 5 classes",
    ),
    "target = torch.tensor([0, -1, -2, 2])\nnn.CrossEntropyLoss(ignore_index=-1)(torch.randn(4, 5), target)": (
        "DG302",
        "`target[2]` = -2 is outside [0, 5): the model has 5 classes",
    ),
    """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10, 3)
        def forward(self, tokens):
            return self.embedding(tokens)
    Net()(torch.tensor([[1, 10], [11, 2]]))
    """: (
        "DG302",
        "`tokens[0, 1]` = 10 is outside [0, 10) (2 such values): `self.embedding` has num_embeddings=10",
    ),
    "table, ids = torch.randn(4, 2), [torch.tensor([0, 4])]\nF.embedding(ids[0], table)": (
        "DG302",
        "`ids[0][1]` = 4 is outside [0, 4): `table` has 4 rows",
    ),
    "x, i = torch.randn(3, 4), torch.tensor([[0], [4], [1]])\nx.gather(1, i)": (
        "DG302",
        "`i[1, 0]` = 4 is outside [0, 4): dimension 1 of `x` has 4 entries",
    ),
    "x, i = torch.randn(3, 4), torch.tensor([-4])\nx[i] = 1.0": (
        "DG302",
        "`i[0]` = -4 is outside [-3, 3): dimension 0 of `x` has 3 entries",
    ),
    "x, i = torch.randn(3, 4), torch.tensor([3])\nx.index_select(0, i)": (
        "DG302",
        "`i[0]` = 3 is outside [0, 3): dimension 0 of `x` has 3 entries",
    ),
    "x, i = torch.zeros(3), torch.tensor([3])\nx.scatter_add_(0, i, torch.ones(1))": (
        "DG302",
        "`i[0]` = 3 is outside [0, 3): dimension 0 of `x` has 3 entries",
    ),
    "x, i = torch.zeros(3), torch.tensor([3])\nx.take(i)": (
        "DG302",
        "`i[0]` = 3 is outside [-3, 3): `x` has 3 elements",
    ),
    "torch.randn(3)[5]": ("DG302", "index 5 is outside [-3, 3): dimension 0 has 3 entries"),
    "F.one_hot(torch.tensor([3]), 3)": ("DG302", "one_hot: a class index is not below num_classes"),
    "p = torch.tensor([0.2, 1.5])\nF.binary_cross_entropy(p, torch.ones(2))": (
        "DG307",
        "`p[1]` = 1.5 is outside [0, 1]: binary_cross_entropy expects probabilities",
    ),
    "p = torch.tensor([float('nan')])\nnn.BCELoss()(p, torch.ones(1))": (
        "DG316",
        "`p[0]` is NaN: binary_cross_entropy expects probabilities",
    ),
    "p = torch.tensor([-1.0, 2.0])\ntorch.multinomial(p, 1)": (
        "DG316",
        "`p[0]` = -1: multinomial expects finite, non-negative weights",
    ),
    "p = torch.tensor([1.25])\ntorch.bernoulli(p)": (
        "DG316",
        "`p[0]` = 1.25 is outside [0, 1]: bernoulli expects probabilities",
    ),
}

HEALTHY = """
torch.manual_seed(0)
scores = torch.randn(4, 5, requires_grad=True)
F.cross_entropy(scores, torch.tensor([0, 4, -100, 2])).backward()
F.cross_entropy(scores, torch.full((4, 5), 0.2))
F.multilabel_margin_loss(scores, torch.tensor([[0, 2, -1, 9, 9]] * 4).clamp(max=4))
embedding = nn.Embedding(10, 3, padding_idx=0)
embedding(torch.tensor([[0, 9]]))
embedding(torch.empty(0, dtype=torch.long))
x = torch.randn(3, 4)
x[torch.tensor([-3, 2])]
x[x > 0]
x[:, None, torch.tensor([-4])]
values, indices = x.topk(2)
x.gather(1, indices)
x.scatter_(1, indices, 0.0)
nn.MaxUnpool2d(2)(*nn.MaxPool2d(2, return_indices=True)(torch.randn(1, 1, 4, 4)))
torch.multinomial(x.softmax(-1), 1)
torch.bernoulli(torch.full((3,), 0.5))
torch.empty(3).bernoulli_(0.5)
F.dropout(x)
F.one_hot(torch.tensor([0, 2]), 3)
F.binary_cross_entropy(torch.tensor([0.0, 1.0]), torch.ones(2))
torch.bincount(torch.tensor([0, 3]))
torch.func.vmap(lambda row, i: row.gather(0, i))(x, indices)
"""


@pytest.mark.parametrize("program", FAULTS)
def test_a_value_outside_its_range_is_named(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, program, IndexRanges)
    assert said(run) == [FAULTS[program]]
    assert run.faults[0].detail


def test_healthy_lookups_are_left_alone(tmp_path: Path) -> None:
    run = watch(tmp_path, HEALTHY, IndexRanges)
    assert said(run) == []
    assert "error" not in run.result


def test_the_facts_say_what_a_fix_needs(tmp_path: Path) -> None:
    run = watch(tmp_path, "target = torch.tensor([2, 3, 4])\nF.cross_entropy(torch.randn(3, 3), target)", IndexRanges)
    place = run.faults[0].at
    assert place is not None
    assert (place.line, place.column) in [(5, 0), (5, None)]
    assert run.faults[0].facts == {
        "operand": "target",
        "value": 3,
        "position": [1],
        "count": 2,
        "low": 0,
        "high": 3,
    }


def test_a_stopped_kernel_explains_itself(tmp_path: Path) -> None:
    run = watch(tmp_path, "x = 1", IndexRanges)
    run = watch(tmp_path, next(iter(FAULTS)), IndexRanges)
    error = DeviceAssert(run.faults[0])
    assert IndexRanges(run).explain(error, None) is run.faults[0]
    assert str(error) == run.faults[0].message


def test_take_along_dim_wraps_without_an_error(tmp_path: Path) -> None:
    run = watch(
        tmp_path, "x, i = torch.randn(3, 4), torch.tensor([[4], [0], [-4]])\ntorch.take_along_dim(x, i, 1)", IndexRanges
    )
    assert "error" not in run.result
    message = "`i[0, 0]` = 4 is outside [-4, 4): take_along_dim wraps it around silently"
    assert said(run) == [("DG302", message)]
    healthy = "x, i = torch.randn(3, 4), torch.tensor([[3], [0], [-4]])\ntorch.take_along_dim(x, i % 4, 1)\ni % 2"
    assert said(watch(tmp_path, healthy, IndexRanges)) == []
