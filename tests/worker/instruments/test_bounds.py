"""What is known of magnitudes is true of them, and nothing that is not finite hides behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from instrument_harness import spots, watch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from drygrad.worker.bounding import rule_of
from drygrad.worker.instruments.births import Births


class Compared(TorchDispatchMode):
    """Compares each result with the rule of the operation, given the true bounds of the operands."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        rule = rule_of(func._schema.name)
        expected = rule(greatest, args, kwargs) if rule else None
        result = func(*args, **kwargs)
        results = cast("list[Any]", result if isinstance(result, (tuple, list)) else [result])
        bounds: Any = expected if isinstance(expected, tuple) else (expected,) * len(results)
        for one, bound in zip(results, bounds, strict=False):
            if bound is not None and isinstance(one, Tensor) and one.is_floating_point():
                self.seen.add(func._schema.name)
                assert greatest(one) <= bound * (1 + 1e-5) + 1e-30, func
        return cast("Any", result)


def greatest(value: Any) -> float:
    if isinstance(value, Tensor):
        return float(value.detach().abs().double().max()) if value.numel() else 0.0
    return abs(value)


def classifier() -> Tensor:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(2, 8),
        nn.Flatten(), nn.Linear(128, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4),
    )  # fmt: skip
    return F.cross_entropy(model(torch.randn(5, 3, 8, 8) * 30), torch.tensor([0, 1, 2, 3, 0]))


def attention() -> Tensor:
    x = nn.Embedding(11, 32)(torch.arange(22).view(2, 11) % 11).view(2, 11, 4, 8).transpose(1, 2)
    q, k, v = nn.Linear(8, 24)(x).chunk(3, -1)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return F.mse_loss(F.silu(y) + torch.sigmoid(y) * torch.tanh(y) + F.leaky_relu(y, 3.0), torch.ones_like(y))


def arithmetic() -> Tensor:
    x = (torch.randn(6, 7) * 3).requires_grad_()
    y = torch.cat([x - 2 * x, x / 0.25, x**3, x.clamp(-9, 20), -x.abs()]).mul(0.5)
    y = torch.where(y > 0, y, y.exp().minimum(y)) + F.pad(y, (1, -1), value=70.0) + torch.full_like(y, 3.0)
    scores = torch.bmm(y[None], y.t()[None]).add(torch.zeros(30, 30), alpha=4)
    spread = (
        scores.softmax(-1).mean() + scores[0].log_softmax(0).sum() + torch.stack([x, x]).masked_fill(x < 0, 5).sum()
    )
    return spread + torch.baddbmm(scores, scores, scores, beta=3, alpha=2).mean() + x.cos().add(x.sin()).sum()


@pytest.mark.parametrize("program", [classifier, attention, arithmetic])
def test_no_result_exceeds_its_bound(program: Callable[[], Tensor]) -> None:
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    with Compared() as compared:
        program().backward()  # pyright: ignore[reportUnknownMemberType]
    assert len(compared.seen) > 10


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("a = torch.ones(3)\nb = a * 2\na.numpy()[1] = float('nan')\n(a * 3).requires_grad_().sum().backward()", 4),
        ("a = torch.ones(3)\nb = a * 2\na[1] = float('inf')\nc = w + a\n(c - c).sum().backward()", 3),
        ("a = torch.ones(3) * 1e20\nb = a * a\n(b * w).sum().backward()", 2),
        (
            "import numpy\nn = numpy.ones(3, 'float32')\nfor i in range(2):\n    y = w * torch.from_numpy(n)\n"
            "    n[0] = float('nan')\ny.sum().backward()",
            4,
        ),
        ("f = torch.ones(3)\ng = f + 1\ntorch.vmap(lambda x: x.sub_(1))(f)\n(w / f).sum().backward()", 4),
    ],
)  # fmt: skip
def test_what_is_written_is_looked_at_again(tmp_path: Path, program: str, line: int) -> None:
    run = watch(tmp_path, "w = torch.ones(3, requires_grad=True); " + program, Births)
    assert [at for _, at in spots(run)] == [line]
