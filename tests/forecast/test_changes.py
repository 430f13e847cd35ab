"""Changes of a program that is traced: each does what it says, where it is for that, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, cast

import pytest
import torch
from torch import nn

from drygrad.worker.forecast.allocator_settings import settings_of
from drygrad.worker.forecast.changes import applied
from drygrad.worker.forecast.changes.change import Change
from drygrad.worker.forecast.changes.seen import Seen as Sight


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear(x).relu()


BLOCK = f"{Block.__module__}.{Block.__qualname__}"


class Seen:
    """What is left of a short training."""

    def __init__(self, change: Change | None) -> None:
        self.change = change
        self.saved = 0
        self.dtypes: set[torch.dtype] = set()
        self.last = nn.Linear(64, 8)
        self.net = nn.Sequential(Block(), Block(), self.last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2)

    def train(self, steps: int = 2) -> Seen:
        torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
        for _ in range(steps):
            with torch.autograd.graph.saved_tensors_hooks(self.keep, lambda tensor: tensor):
                loss = self.net(torch.randn(32, 64)).square().mean()
            loss.backward()
            self.optimizer.step()  # pyright: ignore[reportUnknownMemberType]
            self.optimizer.zero_grad(set_to_none=False)
        return self

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self.saved += tensor.numel()
        self.dtypes.add(tensor.dtype)
        return tensor

    @property
    def states(self) -> list[torch.Tensor]:
        return [value for state in self.optimizer.state.values() for value in state.values() if value.numel() > 1]


def trained(*words: str, steps: int = 2) -> Seen:
    with applied(words) as changes:
        return Seen(changes[0] if changes else None).train(steps)


@cache
def plain() -> Seen:
    """Return what is left without a change."""
    return trained()


def dtypes(tensors: Iterable[torch.Tensor]) -> set[torch.dtype]:
    return {tensor.dtype for tensor in tensors}


Holds = Callable[[Seen], Any]
DOES: list[tuple[str, Holds]] = [
    ("fused", lambda seen: seen.optimizer.defaults["fused"]),
    ("one-by-one", lambda seen: seen.optimizer.defaults["foreach"] is False),
    ("sgd", lambda seen: not seen.states),
    ("8-bit", lambda seen: dtypes(seen.states) == {torch.uint8, torch.float32}),
    ("set-to-none", lambda seen: all(p.grad is None for p in seen.net.parameters())),
    ("half:bf16", lambda seen: dtypes(seen.net.parameters()) == dtypes(seen.states) == {torch.bfloat16}),
    ("autocast:bf16", lambda seen: torch.bfloat16 in seen.dtypes and torch.float32 in dtypes(seen.states)),
    (f"checkpoint:{BLOCK}", lambda seen: seen.saved < 0.75 * plain().saved),
    ("lora:4", lambda seen: [tuple(p.shape) for p in seen.optimizer.state][:2] == [(4, 64), (64, 4)]),
    ("states-in-shards:2", lambda seen: 0.4 < sum(t.numel() for t in seen.states) / 17680 < 0.6),
]


@pytest.mark.parametrize(("word", "holds"), DOES)
def test_a_change_does_what_it_says(word: str, holds: Holds) -> None:
    assert not holds(plain())
    seen = trained(word)
    assert seen.change is not None and seen.change.touched
    assert holds(seen)
    assert torch.get_default_dtype() == torch.float32
    assert not holds(trained()), "it ends with the block"


@pytest.mark.parametrize("word", ["fused", "one-by-one", "set-to-none", f"checkpoint:{BLOCK}"])
def test_results_of_what_is_said_to_be_the_same_are_the_same(word: str) -> None:
    def weights(*words: str) -> torch.Tensor:
        torch.manual_seed(1)  # pyright: ignore[reportUnknownMemberType]
        return torch.cat([p.detach().flatten() for p in trained(*words, steps=3).net.parameters()])

    assert torch.allclose(weights(), weights(word), atol=1e-6)


def test_linear_layers_in_float8_are_nearly_the_same() -> None:
    layer, given = torch.nn.Linear(64, 32), torch.randn(4, 16, 64, requires_grad=True)

    def computed() -> list[torch.Tensor]:
        made = layer(given)
        return [made, *torch.autograd.grad(made.square().sum(), (given, layer.weight, layer.bias))]

    expected = computed()
    with applied(["float8:fn"]) as (change,):
        errors = [
            ((a - b).square().sum() / b.square().sum()).sqrt().item() for a, b in zip(computed(), expected, strict=True)
        ]
        layer(given[:1, :5])
    assert change.touched == 1, "five rows are no multiple of 16"
    assert all(1e-3 < error < 0.1 for error in errors)


def test_a_change_that_a_program_is_not_for_touches_nothing() -> None:
    for word in ("channels-last", "no-grad", "checkpoint:other.Block"):
        change = trained(word).change
        assert change is not None and not change.touched


def test_evaluation_without_gradients_keeps_nothing() -> None:
    net = Block().eval()
    with applied(["no-grad"]) as (change,):
        assert not net(torch.randn(2, 64)).requires_grad
        net.train()
        assert net(torch.randn(2, 64)).requires_grad
    assert change.touched == 1


def test_images_get_their_channels_last() -> None:
    net = nn.Conv2d(8, 8, 3)
    with applied(["channels-last"]) as (change,):
        made = net(torch.randn(2, 8, 9, 9))
    assert change.touched and made.is_contiguous(memory_format=torch.channels_last)


def test_every_second_step_is_taken_and_a_schedule_still_counts() -> None:
    with applied(["accumulate"]):
        seen = Seen(None)
        schedule = torch.optim.lr_scheduler.LambdaLR(seen.optimizer, lambda step: 1.0)
        for _ in range(2):
            before = seen.last.weight.detach().clone()
            seen.train(1)
            schedule.step()
            gradient = seen.last.weight.grad
            moved = not torch.equal(before, seen.last.weight)
            assert gradient is not None and moved == (not gradient.any()), "a gradient stays until its step is taken"
    assert len(seen.optimizer.state) == 6


def test_what_could_be_different_is_seen() -> None:
    with applied(["seen"]) as (change,):
        trained()
        seen: dict[str, Any] = cast("Sight", change).as_wire()
    assert seen["optimizers"] == [{"name": "AdamW", "fusible": True, "foreach": True}]
    assert [(block["name"], block["count"]) for block in seen["blocks"]] == [(BLOCK, 2)]
    assert (seen["flags"], seen["linear"]) == (["zeros"], 3)
    with applied(["seen"]) as (change,), torch.autocast("cpu", dtype=torch.bfloat16):
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)).bfloat16().eval()(torch.randn(1, 3, 9, 9))
    assert cast("Sight", change).as_wire() == {
        "flags": ["evaluates", "half", "images"],
        "optimizers": [],
        "blocks": [],
        "linear": 0,
    }


def test_expandable_segments_are_set_beside_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
    with applied(["expandable"]) as (change,):
        assert settings_of(os.environ)[:2] == (True, 64 << 20)
    assert change.touched
    assert settings_of(os.environ)[:2] == (False, 64 << 20)
