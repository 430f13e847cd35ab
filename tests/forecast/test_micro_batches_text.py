"""A training step goes through its batch in two parts, with equal gradients, where nothing else reads its results."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from drygrad.dryrun.what_if.rewrites import Rewriter
from drygrad.fixing import apply_edits
from drygrad.static.source import Source

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F

def batch(n):
    return torch.randn(4, 8, generator=n), torch.randint(0, 3, (4,), generator=n)

def train(model, scaler):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numbers = torch.Generator().manual_seed(0)
    for x, y in [batch(numbers) for _ in range(3)]:
        x = x.to("cpu")
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach() for p in model.parameters()]
"""
LOOP = "for x, y in [batch(numbers) for _ in range(3)]:"
FORMS = [
    (PROGRAM, "for x, y in zip(x.chunk(2), y.chunk(2)):"),
    (PROGRAM.replace(LOOP, "for _ in range(3):\n        x, y = batch(numbers)"), "for x, y in zip("),
    (
        PROGRAM.replace(
            "logits = model(x)", "with torch.autocast('cpu', enabled=False):\n            logits = model(x)"
        ),
        "zip(",
    ),
    (PROGRAM.replace("        loss.b", "        optimizer.zero_grad()\n        loss.b"), "zip("),
    (PROGRAM.replace("loss.backward()", "scaler.scale(loss).backward()"), "scaler.scale(loss / 2).backward()"),
    (
        PROGRAM.replace("loss = F", "F").replace(", y)\n        loss.", ", y)."),
        "(F.cross_entropy(logits, y) / 2).backward()",
    ),
    (
        PROGRAM.replace(
            "logits = model(x)\n        loss = F.cross_entropy(logits, y)\n        loss.", "model(x)[:, 0].mean()."
        ),
        "for x in x.chunk(2):",
    ),
    (
        PROGRAM.replace("F.cross_entropy(logits, y)", "logits.square().mean()"),
        "for x in x.chunk(2):",
    ),
]
OTHERS = [
    PROGRAM.replace("        optimizer.step()", "        print(loss.item())\n        optimizer.step()"),
    PROGRAM.replace("        optimizer.step()", "        print(x)\n        optimizer.step()"),
    PROGRAM.replace("        optimizer.step()\n", ""),
    PROGRAM.replace("        loss.backward()", "        assert x.any()\n        loss.backward()"),
    PROGRAM.replace("loss.backward()", "loss.backward(retain_graph=True)"),
    PROGRAM.replace("model(x)", "model(numbers)"),
]


class Scaler:
    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * 1.0


def rewritten(text: str) -> str:
    source = Source(text)
    return apply_edits(source, Rewriter(source).of("accumulate"))


def trained(text: str) -> list[torch.Tensor]:
    names: dict[str, Any] = {}
    exec(compile(text, "step", "exec"), names)
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    return names["train"](torch.nn.Linear(8, 3), Scaler())


@pytest.mark.parametrize(("text", "wanted"), FORMS)
def test_a_step_in_parts_has_equal_gradients(text: str, wanted: str) -> None:
    made = rewritten(text)
    assert wanted in made and " / 2).backward()" in made
    for now, before in zip(trained(made), trained(text), strict=True):
        assert torch.allclose(now, before, atol=1e-6)


@pytest.mark.parametrize("other", OTHERS)
def test_another_form_stays(other: str) -> None:
    assert rewritten(other) == other
