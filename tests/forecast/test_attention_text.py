"""Attention that is written out becomes one call, in the forms that are known; all others stay."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from drygrad.dryrun.what_if.rewrites import Rewriter
from drygrad.fixing import apply_edits
from drygrad.static.source import Source

HEAD = """\
import math
import torch
from torch import nn
from torch.nn import functional as F

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.0)
        self.register_buffer("lower", torch.tril(torch.ones(9, 9)).view(1, 1, 9, 9))

    def forward(self, q, k, v, mask, bias):
        T = q.size(-2)
"""
FORMS = [
    ("return (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1) @ v", "q, k, v, scale=1.0 / math.sqrt("),
    ("return torch.matmul(F.softmax(0.5 * torch.matmul(q, k.mT), dim=-1), v)", "q, k, v, scale=0.5"),
    ("y = q @ k.transpose(2, 3)\ny = torch.softmax(y, -1)\nreturn y.matmul(v)", "q, k, v, scale=1.0"),
    ("a = q @ k.mT + bias\na = nn.Softmax(dim=-1)(a)\nreturn self.drop(a) @ v", "attn_mask=bias"),
    ("a = (q @ k.mT).masked_fill(mask, -math.inf)\nreturn a.softmax(dim=-1) @ v", "attn_mask=~mask"),
    (
        "a = q @ k.mT * 0.5\nif mask is not None:\n    a = a.masked_fill(~mask, -1e9)\nreturn a.softmax(-1) @ v",
        "is None",
    ),
    (
        "a = q @ k.mT\na = a.masked_fill(self.lower[:, :, :T, :T] == 0, float('-inf'))\nreturn a.softmax(-1) @ v",
        "causal",
    ),
    (
        "a = torch.matmul(q, k.transpose(2, 3)) * 0.5\nif bias is not None:\n    a = a + bias\n"
        "a = nn.functional.softmax(a, dim=-1, dtype=torch.float32).to(q.dtype)\n"
        "a = nn.functional.dropout(a, p=0.0, training=self.training)\nreturn torch.matmul(a, v)",
        "is None",
    ),
    ("a = q @ k.mT / 2\na = F.softmax(a.float(), dim=-1).type_as(q)\nreturn torch.matmul(a, v)", "scale=1.0 / (2)"),
    ("a = F.dropout((q @ k.mT).softmax(-1), p=0.0, training=self.training)\nreturn a @ v", "if self.training else 0.0"),
]
OTHERS = [
    "a = (q @ k.mT).softmax(-1)\nreturn a @ v, a",
    "return (q @ k.mT).softmax(-2) @ v",
    "return (q @ k.mT).relu() @ v",
    "return (q @ k).softmax(-1) @ v",
    "a = q @ k.mT\nq = q + 1\nreturn a.softmax(-1) @ v + q",
    "a = q @ k.mT\nif T > 2:\n    a = a * 2\nreturn a.softmax(-1) @ v",
    "a = q @ k.mT\nif mask is not None:\n    a = a * 2\nreturn a.softmax(-1) @ v",
    "a = (q @ k.mT).masked_fill(mask, 0.5)\nreturn a.softmax(-1) @ v",
    "a = q @ k.mT\nk.mul_(2)\nreturn a.softmax(-1) @ v",
    "return torch.softmax(q @ k.mT, -1, dtype=torch.float64).to(v) @ v",
    "a = (q @ k.mT * 0.5 + bias) * 2\nreturn a.softmax(-1) @ v",
]


def program(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.splitlines())


def rewritten(text: str) -> str:
    source = Source(text)
    return apply_edits(source, Rewriter(source).of("sdpa"))


def computed(text: str) -> torch.Tensor:
    names: dict[str, Any] = {"math": math, "torch": torch, "nn": nn, "F": F}
    exec(compile(text, "attention", "exec"), names)
    q, k, v = (torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(i)) for i in range(3))
    bias = torch.randn(5, 5, generator=torch.Generator().manual_seed(3))
    return names["Attention"]()(q, k, v, torch.ones(5, 5, dtype=torch.bool).triu(1), bias)


@pytest.mark.parametrize(("body", "wanted"), FORMS)
def test_a_known_form_becomes_one_call_that_computes_the_same(body: str, wanted: str) -> None:
    text = rewritten(program(body))
    ast.parse(text)
    assert text.count("F.scaled_dot_product_attention(") == 1 and wanted in text
    assert "softmax" not in text and "mT" not in text
    assert torch.allclose(computed(text), computed(program(body)), atol=1e-5)


@pytest.mark.parametrize("body", OTHERS)
def test_another_form_stays(body: str) -> None:
    assert rewritten(program(body)) == program(body)
