"""Copies of a program's objects: whole, and apart from the original."""

from __future__ import annotations

from typing import Any

import torch

from drygrad.worker.copying import whole_copy


class Clipping(torch.optim.SGD):
    """An optimizer with an attribute of its own, which torch does not pickle."""

    def __init__(self, parameters: Any, most: float) -> None:
        super().__init__(parameters, lr=0.1, momentum=0.9)
        self.most = most


def test_an_optimizer_keeps_its_attributes_and_updates_the_copies_parameters() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = Clipping(model.parameters(), most=2.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    model(torch.ones(1, 2)).sum().backward()
    before = model.weight.detach().clone()
    copied, other, _ = whole_copy((model, optimizer, scheduler))
    assert (type(other), other.most) == (Clipping, 2.0)
    assert other.param_groups[0]["params"][0] is copied.weight
    other.step()
    assert torch.equal(model.weight, before)
    assert not torch.equal(copied.weight, before)
    assert other.state[copied.weight]["momentum_buffer"] is not None
    assert not optimizer.state
