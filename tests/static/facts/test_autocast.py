"""What autocast makes of dtypes, held against torch on the CPU."""

from __future__ import annotations

import ast

import pytest
import torch

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Tensor

DTYPES = {
    "x @ x.T": "float16",
    "layer(x)": "float16",
    "layer(x).relu() * 2": "float16",
    "(x @ x.T).transpose(0, 1) / 8": "float16",
    "torch.bmm(x[None], x[None].mT)": "float16",
    "x + 1": "float32",
    "layer(x).float()": "float32",
    "layer(x).softmax(-1)": None,
    "layer(x).exp()": None,
    "torch.relu(x)": "float32",
    "(x.double() @ x.double().T)": None,
}


@pytest.mark.parametrize("expression", DTYPES)
def test_dtype_under_autocast(expression: str) -> None:
    text = (
        "import torch\nx = torch.randn(3, 3)\nlayer = torch.nn.Linear(3, 3)\n"
        f"with torch.autocast('cuda', dtype=torch.float16):\n    y = {expression}\n"
    )
    value = ModuleFacts(ast.parse(text), text).globals["y"]
    assert isinstance(value, Tensor)
    assert value.dtype == DTYPES[expression]


@pytest.mark.parametrize("expression", [e for e, dtype in DTYPES.items() if dtype is not None])
def test_claim_holds_in_torch(expression: str) -> None:
    with torch.autocast("cpu", dtype=torch.float16):
        result = eval(expression, {"torch": torch, "x": torch.randn(3, 3), "layer": torch.nn.Linear(3, 3)})
    assert str(result.dtype) == f"torch.{DTYPES[expression]}"


def test_a_function_called_with_and_without_autocast() -> None:
    text = (
        "import torch\nlayer = torch.nn.Linear(3, 3)\n"
        "def f(x):\n    return layer(x)\n"
        "x = torch.randn(3, 3)\na = f(x)\n"
        "with torch.autocast('cuda', dtype=torch.float16):\n    b = f(x)\n"
    )
    names = ModuleFacts(ast.parse(text), text).globals
    a, b = names["a"], names["b"]
    assert isinstance(a, Tensor)
    assert isinstance(b, Tensor)
    assert (a.dtype, b.dtype) == ("float32", "float16")
