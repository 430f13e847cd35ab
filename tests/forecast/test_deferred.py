"""Attention in one kernel and losses in parts: equal results where the pattern is there, else the program's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from drygrad.worker.forecast.changes import applied

Q, K, V = (torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(i)) for i in range(3))
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
ATTENTIONS: list[Callable[[Any, Any, Any], Any]] = [
    lambda q, k, v: (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v,
    lambda q, k, v: torch.matmul(F.softmax(torch.matmul(q, k.transpose(2, 3)) * 4**-0.5, dim=-1), v),
    lambda q, k, v: F.dropout((q @ k.mT * 0.5).masked_fill(~CAUSAL, -math.inf).softmax(dim=-1), 0.0) @ v,
    lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) * 0.5 + torch.zeros(5, 5), dim=3).matmul(v),
]
OTHERS: list[Callable[[Any, Any, Any], Any]] = [
    lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-2) @ v,
    lambda q, k, v: (q @ k.transpose(-2, -1)).relu() @ v,
    lambda q, k, v: q @ k.transpose(-2, -1),
    lambda q, k, v: (w := (q @ k.mT).softmax(-1)).sum() + (w @ v).sum(),
]


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_attention_that_is_written_out_is_one_kernel(attention: Callable[[Any, Any, Any], Any]) -> None:
    expected = attention(Q, K, V)
    with applied(["sdpa"]) as (change,):
        assert torch.allclose(attention(Q, K, V), expected, atol=1e-6)
    assert change.touched == 1


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_attention_is_computed_as_it_is_written(other: Callable[[Any, Any, Any], Any]) -> None:
    expected = other(Q, K, V)
    with applied(["sdpa"]):
        assert torch.allclose(torch.as_tensor(other(Q, K, V)), expected, atol=1e-6)


HIDDEN = torch.randn(3, 7, 16)
HEAD = torch.randn(9000, 16)
WORDS = torch.randint(0, 9000, (3, 7))
LOSSES: list[Callable[[Any, Any], Any]] = [
    lambda h, w: F.cross_entropy(F.linear(h, w).view(-1, 9000), WORDS.view(-1)),
    lambda h, w: F.cross_entropy(F.linear(h, w).flatten(0, 1).float(), WORDS.flatten()),
    lambda h, w: F.cross_entropy(F.linear(h, w)[:, :-1, :].reshape(-1, 9000), WORDS[:, 1:].reshape(-1)),
]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_over_many_words_is_computed_in_parts(loss: Callable[[Any, Any], Any]) -> None:
    def gradients() -> list[torch.Tensor]:
        hidden, head = HIDDEN.clone().requires_grad_(), HEAD.clone().requires_grad_()
        return [*torch.autograd.grad(loss(hidden, head), (hidden, head)), loss(hidden, head).detach()]

    expected = gradients()
    with applied(["chunked-loss"]) as (change,):
        for made, usual in zip(gradients(), expected, strict=True):
            assert torch.allclose(made, usual, atol=1e-4)
    assert change.touched == 2


def test_other_uses_of_many_words_are_computed_as_they_are_written() -> None:
    with applied(["chunked-loss"]) as (change,):
        logits = F.linear(HIDDEN, HEAD)
        assert logits.shape == (3, 7, 9000) and logits.device.type == "cpu" and logits.argmax(-1).shape == (3, 7)
        assert torch.equal(logits.log_softmax(-1), F.linear(HIDDEN, HEAD).log_softmax(-1))
    assert not change.touched
