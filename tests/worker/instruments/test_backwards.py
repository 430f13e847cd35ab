"""A backward that is no derivative is reported at what it returns; one that is, or is meant otherwise, is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import said, spots, watch

from drygrad.worker.instruments.backwards import Backwards
from drygrad.worker.instruments.training import Training

PROGRAM = """\
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return {forward}

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return {backward}

x, w = torch.rand(3) + 1, (torch.rand(3) + 1).requires_grad_()
state = torch.get_rng_state()
Own.apply(x.requires_grad_(), w).sum().backward()
assert torch.equal(state, torch.get_rng_state())
"""


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        ("x * w", "grad * x, grad * w"),
        ("x * torch.sigmoid(x) + w", "grad * torch.sigmoid(x), grad"),
        ("(x ** 2 * w)", "x * w * grad, x ** 2 * grad"),
        ("torch.exp(-x) * w", "torch.exp(-x) * w * grad, torch.exp(-x) * grad"),
    ],
)
def test_a_backward_that_is_no_derivative(tmp_path: Path, forward: str, backward: str) -> None:
    run = watch(tmp_path, PROGRAM.format(forward=forward, backward=backward), Backwards)
    assert spots(run) == [("DG123", 10)]


def test_nobody_hears_of_the_comparison(tmp_path: Path) -> None:
    run = watch(tmp_path, PROGRAM.format(forward="x * w", backward="grad * x, grad * w"), Backwards, Training)
    assert spots(run) == [("DG123", 10)]


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        ("x * w", "grad * w, grad * x"),
        ("torch.round(x) * w", "grad * w, grad * x"),
        ("x.view_as(x)", "-0.5 * grad, None"),
        ("x + w + torch.randn(3)", "3 * grad, grad"),
        ("x * w", "grad * x, None"),
        ("torch.where(x > 1, x, w)", "grad, grad"),
    ],
)
def test_what_is_right_or_meant(tmp_path: Path, forward: str, backward: str) -> None:
    assert said(watch(tmp_path, PROGRAM.format(forward=forward, backward=backward), Backwards)) == []
