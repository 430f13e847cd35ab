"""Results of two calls: where they agree."""

from __future__ import annotations

import pytest
import torch

from drygrad.worker.experiments.trace import agree

LOST = [float("nan"), float("inf")]


@pytest.mark.parametrize("lost", LOST)
def test_a_number_that_is_not_finite_in_another_part_says_nothing(lost: float) -> None:
    one = torch.tensor([lost, 1.0, 2.0])
    assert agree(one, one.clone(), lambda tensor: [tensor[1:]])
    assert not agree(one, torch.tensor([lost, 1.0, 2.5]), lambda tensor: [tensor[1:]])


def test_one_layout_that_agrees_is_enough() -> None:
    one, other = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])
    assert agree(one, other, lambda tensor: [tensor, tensor[:1]])
    assert not agree(one, other, lambda tensor: [tensor, tensor[1:]])
