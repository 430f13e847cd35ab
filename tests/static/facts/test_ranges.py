"""What is claimed of the range of results, held against torch."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from drygrad.static.facts.interval import Range
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Number, Quantity, Tensor

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
    "x ** -2": "positive",
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
    "1 - x.clamp(max=1)": "nonnegative",
    "1 - x.cos()": "nonnegative",
    "2 - x.tanh()": "positive",
    "x.softmax(0)": "nonnegative",
    "x.softmax(0).sum()": "positive",
    "(x > 0).sum()": "nonnegative",
    "(x > 0).float().mean()": "nonnegative",
    "1 / x.abs()": "positive",
    "x.abs() / torch.zeros(4)": None,
    "x.abs() / (x.exp() + 1)": "nonnegative",
    "torch.where(x > 0, x.abs(), 1.0)": "positive",
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
    "x - x.detach()": "zero",
    "x.amax() - x": "nonnegative",
    "x - x.min()": "nonnegative",
    "x.max() - x.min()": "nonnegative",
    "x.max() - x.mean()": None,
    "torch.arange(4)": "nonnegative",
    "torch.arange(1, 4)": "positive",
    "torch.arange(4) + 1": "positive",
    "torch.linspace(0, 1, 4)": "nonnegative",
    "torch.zeros(4).scatter_add(0, torch.zeros(4, dtype=torch.int64), x.exp())": "nonnegative",
    "torch.where(x.abs() == 0, 1.0, x.abs())": "positive",
    "(x + 1e-6).abs()": "positive",
    "1 - x.softmax(0)": "nonnegative",
    "x.softmax(0).norm()": "positive",
    "1 - torch.exp(x.log_softmax(0))": "nonnegative",
    "F.relu(x) + 1": "positive",
    "F.normalize(x, dim=0)": None,
    "F.one_hot(torch.tensor([0, 2]))": "nonnegative",
    "torch.zeros(4).clamp(min=1e-3)": "positive",
}
HOLDS: dict[str, Callable[[Any], Any]] = {
    "positive": lambda t: (t > 0).all(),
    "nonnegative": lambda t: (t >= 0).all(),
    "zero": lambda t: (t == 0).all(),
}


def claimed(body: str, name: str = "y") -> str | None:
    text = f"import torch\nimport torch.nn.functional as F\nx = torch.randn(4)\n{body}\n"
    facts = ModuleFacts(ast.parse(text), text)
    value = facts.globals[name]
    assert isinstance(value, (Tensor, Quantity))
    return described(value.range)


def described(known: Range | None) -> str | None:
    """Say in a word what a range tells of the signs: the elements reach 0 by themselves where it is "nonnegative"."""
    if known is None or not known.nonnegative:
        return None
    if known.is_always(0):
        return "zero"
    return "positive" if known.positive else "nonnegative"


@pytest.mark.parametrize("expression", SIGNS)
def test_sign(expression: str) -> None:
    assert claimed(f"y = {expression}") == SIGNS[expression]


@pytest.mark.parametrize("expression", [e for e, sign in SIGNS.items() if sign is not None])
def test_claim_holds_in_torch(expression: str) -> None:
    for x in (torch.tensor([-3.0, -0.5, 0.25, 2.0]), torch.tensor([1.0, 1.5, 2.0, 4.0]), -torch.rand(4) - 1):
        result = eval(expression, {"torch": torch, "F": F, "x": x})
        assert HOLDS[SIGNS[expression] or ""](result), x


@pytest.mark.parametrize(
    "elements",
    [
        "a, b = x",
        "a, b = torch.rand(2, 3)",
        "a, b = x.chunk(2)",
        "a, b = x.view(2, 2).unbind(0)",
        "a, b = torch.split(x, 2)",
        "parts = x.chunk(2)\na, b = parts[0], parts[1]",
        "for a, b in torch.rand(3, 2): pass",
        "_, (a, b) = torch.nn.LSTM(3, 3)(x)",
        "drop = torch.nn.Dropout()\na, b = drop(x), drop(x)",
    ],
)
def test_elements_are_not_the_same_numbers(elements: str) -> None:
    assert claimed(f"{elements}\ny = a - b") is None


def test_sign_is_forgotten_where_memory_is_overwritten() -> None:
    assert claimed("y = torch.zeros(4)\ny += 1") == "positive"
    assert claimed("y = torch.zeros(4)\nview = y.view(2, 2)\nview.add_(x)") is None
    assert claimed("y = torch.zeros(4)\ny[0] = 5.0") == "nonnegative"
    assert claimed("y = torch.zeros(4)\ny[0].add_(-1)") is None
    assert claimed("y = x.exp()\ny.copy_(x)") is None


def test_what_an_item_becomes_is_known_of_the_whole() -> None:
    assert claimed("y = torch.zeros(4)\ny[torch.tensor([1])] += 1") == "nonnegative"
    assert claimed("y = torch.ones(4)\ny[torch.tensor([1])] -= x[0]") is None


@pytest.mark.parametrize(
    ("test", "sign"),
    [
        ("if y == 0:\n    raise ValueError", "positive"),
        ("if y <= 0:\n    raise ValueError", "positive"),
        ("assert y > 0", "positive"),
        ("assert (y > 0).all()", "positive"),
        ("assert y.all()", "positive"),
        ("if (y == 0).any():\n    raise ValueError", "positive"),
        ("if not (y > 0).all() or x.sum() > 3:\n    raise ValueError", "positive"),
        ("if (y == 0).all():\n    raise ValueError", "nonnegative"),
        ("assert (y > 0).any()", "nonnegative"),
        ("if y < 0:\n    raise ValueError", "nonnegative"),
        ("if x.sum() == 0:\n    raise ValueError", "nonnegative"),
    ],
)
def test_a_test_of_the_value_keeps_it_from_zero(test: str, sign: str) -> None:
    assert claimed(f"y = x.abs()\n{test}") == sign


@pytest.mark.parametrize(
    ("body", "sign"),
    [
        ("y = x - x", "zero"),
        ("y = 0 * x", "zero"),
        ("y = x * x", "nonnegative"),
        ("y = abs(x - z)", "nonnegative"),
        ("y = (x > 3).sum()", "nonnegative"),
        ("y = (x ** 2).sum(1)\ny += 1e-6", "positive"),
        ("y = max((x ** 2).mean(), 1)", "positive"),
        ("y = x.sub(x)", "zero"),
        ("y = x.max() - x", "nonnegative"),
        ("y = x + 1", None),
        ("y = x - z", None),
        ("y = w ** 2", "positive"),
    ],
)
def test_what_is_computed_from_parameters_of_unknown_type(body: str, sign: str | None) -> None:
    lines = body.replace("\n", "\n    ")
    text = f"import torch\n\ndef f(x, z):\n    {lines}\n    return y\n"
    facts = ModuleFacts(ast.parse(text), text)
    function = facts.functions[0][0].node
    assert isinstance(function, ast.FunctionDef)
    returned = function.body[-1]
    assert isinstance(returned, ast.Return)
    assert returned.value is not None
    assert described(getattr(facts.recording.quantities.get(returned.value), "range", None)) == sign
    assert returned.value not in facts.recording.values or isinstance(facts.recording.values[returned.value], Number)


def test_sign_of_what_a_loop_accumulates() -> None:
    assert claimed("y = torch.zeros(4)\nfor i in range(3):\n    y = y + x.abs()") == "nonnegative"
    assert claimed("y = torch.zeros(4)\nfor i in range(3):\n    y = y + x") is None
