"""The dtypes that are claimed where arguments, numbers and dimensions decide."""

from __future__ import annotations

import ast

import pytest

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Tensor


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        ("torch.zeros(3, dtype=torch.float16).softmax(-1, torch.float32)", "float32"),
        ("torch.zeros(3, dtype=torch.float16).sum(dtype=torch.float64)", "float64"),
        ("torch.zeros(3, dtype=torch.float16).sum(dtype=unseen)", None),
        ("torch.zeros(3, dtype=torch.float16).mean(**unseen)", None),
        ("torch.arange(3) / 2", "float32"),
        ("torch.arange(3) // 2", "int64"),
        ("torch.arange(3) * 0.5", "float32"),
        ("torch.arange(3) * len(unseen)", None),
        ("torch.div(torch.arange(3), 2, rounding_mode='floor')", "int64"),
        ("torch.div(torch.arange(3), 2, rounding_mode=unseen)", None),
        ("torch.arange(3) * torch.tensor(0.5, dtype=torch.float64)", "float64"),
        ("torch.zeros(3, dtype=torch.float16) * torch.tensor(0.5)", "float16"),
        ("torch.zeros(3, dtype=torch.float16) + torch.zeros(3)", "float32"),
        ("torch.zeros(3, dtype=torch.int32) + torch.arange(3)", "int64"),
        ("torch.where(torch.arange(3) > 1, 1.0, 0.0)", "float32"),
        ("torch.where(torch.arange(3) > 1, torch.zeros(3, dtype=torch.float16), 0.0)", "float16"),
        ("torch.where(torch.arange(3) > 1)[0]", "int64"),
        ("torch.zeros(3, dtype=torch.complex64).real", "float32"),
        ("torch.zeros(3).clamp(min=0)", "float32"),
        ("torch.nn.Embedding(10, 4)(torch.arange(3))", None),
        ("torch.nn.EmbeddingBag(10, 4)(torch.zeros(2, 3, dtype=torch.int64))", None),
        ("torch.max(torch.zeros(3, dtype=torch.float16), torch.zeros(3))", "float32"),
        ("torch.zeros(4).unique(return_counts=True)[1]", "int64"),
        ("torch.bucketize(unseen.float(), torch.zeros(3), out_int32=True)", "int32"),
        ("torch.arange(3).add(1, out=torch.zeros(3))", "float32"),
    ],
)  # fmt: skip
def test_dtype(made: str, dtype: str | None) -> None:
    program = f"import torch\ny = {made}\n"
    value = ModuleFacts(ast.parse(program), program).globals["y"]
    assert (value.dtype if isinstance(value, Tensor) else None) == dtype
