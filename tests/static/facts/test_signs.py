"""What is claimed of the sign of results, held against torch."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Tensor

SIGNS = {
    "x.exp()": "positive",
    "x.abs()": "nonnegative",
    "x.abs() + 1e-8": "positive",
    "1e-8 + x.abs().sum()": "positive",
    "x - x": "zero",
    "(x - x).sum()": "zero",
    "(x - x) * 3": "zero",
    "x * 0": "zero",
    "x * x": "nonnegative",
    "x ** 2": "nonnegative",
    "x ** 3": None,
    "x ** -2": None,
    "x.abs() ** 0.5": "nonnegative",
    "x.abs() ** -1": "positive",
    "x.pow(2).mean()": "nonnegative",
    "x.pow(2).mean() + 1e-6": "positive",
    "x.norm()": "nonnegative",
    "x.norm(dim=-1, keepdim=True) + 1e-6": "positive",
    "torch.linalg.vector_norm(x)": "nonnegative",
    "x.std()": "nonnegative",
    "x.var(dim=0)": "nonnegative",
    "x.clamp(min=1e-6)": "positive",
    "x.clamp(1e-6, 1)": "positive",
    "x.clamp(min=0)": "nonnegative",
    "x.clamp(max=1)": None,
    "x.exp().clamp(max=1)": "positive",
    "x.clamp(min=1, max=-1)": None,
    "x.clamp_min(1e-6)": "positive",
    "torch.maximum(x, torch.tensor(0.5))": "positive",
    "torch.maximum(torch.zeros(4), x)": "nonnegative",
    "torch.minimum(x.exp(), x)": None,
    "x.sigmoid()": "nonnegative",
    "1 - x.sigmoid()": "nonnegative",
    "1 - x": None,
    "1 - x.clamp(-1 + 1e-6, 1 - 1e-6).square()": "positive",
    "1 - x.clamp(-1, 1) ** 2": "nonnegative",
    "1 - x.clamp(-3, 1).square()": None,
    "1 - x.clamp(max=1)": None,
    "1 - x.cos()": "nonnegative",
    "2 - x.tanh()": "positive",
    "x.softmax(0)": "nonnegative",
    "x.softmax(0).sum()": "positive",
    "(x > 0).sum()": "nonnegative",
    "(x > 0).float().mean()": "nonnegative",
    "1 / x.abs()": "positive",
    "x.abs() / torch.zeros(4)": None,
    "x.abs() / (x.exp() + 1)": "nonnegative",
    "torch.where(x > 0, x.abs(), 1.0)": "nonnegative",
    "x.exp().masked_fill(x > 0, 1.0)": "positive",
    "x.exp().masked_fill(x > 0, -1.0)": None,
    "torch.cat([x.exp(), torch.ones(2)])": "positive",
    "torch.full((2,), 3.0)": "positive",
    "torch.full((2,), -3.0)": None,
    "torch.tensor([1.0, 2.0])": "positive",
    "torch.tensor([0.0, 2.0])": "nonnegative",
    "torch.add(x.abs(), x.exp(), alpha=-5)": None,
    "torch.div(x.exp(), 100, rounding_mode='floor')": None,
    "x.square().sum().sqrt()": "nonnegative",
    "(x.square().sum() + 1e-8).rsqrt()": "positive",
}
HOLDS: dict[str, Callable[[Any], Any]] = {
    "positive": lambda t: (t > 0).all(),
    "nonnegative": lambda t: (t >= 0).all(),
    "zero": lambda t: (t == 0).all(),
}


def claimed(body: str, name: str = "y") -> str | None:
    text = f"import torch\nx = torch.randn(4)\n{body}\n"
    facts = ModuleFacts(ast.parse(text), text)
    value = facts.globals[name]
    assert isinstance(value, Tensor)
    return value.sign


@pytest.mark.parametrize("expression", SIGNS)
def test_sign(expression: str) -> None:
    assert claimed(f"y = {expression}") == SIGNS[expression]


@pytest.mark.parametrize("expression", [e for e, sign in SIGNS.items() if sign is not None])
def test_claim_holds_in_torch(expression: str) -> None:
    for x in (torch.tensor([-3.0, -0.5, 0.25, 2.0]), torch.tensor([1.0, 1.5, 2.0, 4.0]), -torch.rand(4) - 1):
        result = eval(expression, {"torch": torch, "F": F, "x": x})
        assert HOLDS[SIGNS[expression] or ""](result), x


def test_sign_is_forgotten_where_memory_is_overwritten() -> None:
    assert claimed("y = torch.zeros(4)\ny += 1") == "positive"
    assert claimed("y = torch.zeros(4)\nview = y.view(2, 2)\nview.add_(x)") is None
    assert claimed("y = torch.zeros(4)\ny[0] = 5.0") == "nonnegative"
    assert claimed("y = torch.zeros(4)\ny[0].add_(-1)") is None
    assert claimed("y = x.exp()\ny.copy_(x)") is None


def test_sign_of_what_a_loop_accumulates() -> None:
    assert claimed("y = torch.zeros(4)\nfor i in range(3):\n    y = y + x.abs()") == "nonnegative"
    assert claimed("y = torch.zeros(4)\nfor i in range(3):\n    y = y + x") is None
