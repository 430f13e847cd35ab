"""What the interpretation says of in-place writes is what torch does when the program runs."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from drygrad.static.facts.events import InplaceWrite
from drygrad.static.facts.module import ModuleFacts

PRELUDE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
leaf = torch.rand(4, 4, requires_grad=True)
other = torch.rand(4, 4)
learned = torch.rand(4, 4, requires_grad=True)
x = leaf * 0.5 + 0.3
"""
OUTPUTS = """
x.exp() | x.sigmoid() | torch.tanh(x) | F.softmax(x, 1) | x.log_softmax(-1) | x.sqrt() | F.relu(x) | x.amax(1) |
x.prod() | x.norm(dim=1) | x.std() | 1 / x | x.reciprocal() | x ** 2 | x * 2 | x + 1 | x.log() | x.clamp(0.4) |
x @ other | x @ learned | F.linear(x, learned) | F.gelu(x) | x.max() | torch.max(x, other) | x.max(1)[0] |
x.median(dim=1)[0] | x.abs() | F.layer_norm(x, (4,)) | x.clone() | x.mean() | x.cumprod(0) |
F.mse_loss(x, other, reduction="none")
""".replace("\n", " ")
INPUTS = (
    OUTPUTS
    + """| x * other | x * learned | x / other | x / learned | other / x | x * x | x.pow(1) | F.linear(x, other) |
nn.Linear(4, 4)(x) | nn.Sigmoid()(x) | torch.maximum(x, other) | x.where(x > 0, other) | x.clamp_min(0.4)"""
)
PROGRAMS = [
    *(f"y = {made.strip()}\ny.add_(1)\ny.sum().backward()" for made in OUTPUTS.split("|")),
    *(f"y = {made.strip()}\nx.add_(1)\ny.sum().backward()" for made in INPUTS.split("|")),
    *(f"x.{name}_()\nx.add_(1)\nx.sum().backward()" for name in "exp log sigmoid relu sqrt abs square cos".split()),
    "F.leaky_relu(x, inplace=True)\nx.add_(1)\nx.sum().backward()",
    "x.mul_(other)\nother.add_(1)\nx.sum().backward()",
    "y = x.exp()\nz = y.view(-1)\nz.add_(1)\ny.sum().backward()",
    "y = x.exp()\nz = y[torch.tensor([0, 1])]\nz.add_(1)\n(y.sum() + z.sum()).backward()",
    "y = x.exp()\nz = y[0]\nz.add_(1)\ny.sum().backward()",
    "y = x.exp()\nz = y.t().reshape(-1)\nz.add_(1)\n(y.sum() + z.sum()).backward()",
    "y = x.exp()\ny.detach().add_(1)\ny.sum().backward()",
    "y = x.exp()\ny[0] = 1\ny.sum().backward()",
    "y = x.exp()\ny *= 2\ny.sum().backward()",
    "y = x.exp()\nwith torch.no_grad():\n    y.add_(1)\ny.sum().backward()",
    "with torch.no_grad():\n    y = x.exp()\ny.add_(1)\n(x.sum() + y.sum()).backward()",
    "y = x.exp()\ny.sum().backward()\ny.add_(1)",
    "t = 0\nfor _ in range(3):\n    y = x + 1\n    y.add_(1)\n    t = t + y.square()\nt.sum().backward()",
    "data = torch.rand(2, 4)\ny = nn.Linear(4, 4)(data)\ndata.add_(1)\ny.sum().backward()",
    "data = other * 1\nlayer = nn.Linear(4, 4).requires_grad_(False)\n"
    "y = layer(data)\ndata.add_(1)\n(y.sum() * learned).sum().backward()",
    "y = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))(x)\ny.add_(1)\ny.sum().backward()",
    "y = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())(x)\ny.add_(1)\ny.sum().backward()",
    "y = nn.Sequential(nn.Sigmoid(), nn.Linear(4, 4))(x)\nx.add_(1)\ny.sum().backward()",
    "def f(v):\n    return v + 1\na = f(x)\nb = a * a\nc = f(x)\nc.add_(1)\n(b + c).sum().backward()",
    "def f(v):\n    return v + 1\na = f(x)\nb = a * a\na.add_(1)\n(a + b).sum().backward()",
    "def f(v):\n    return v.view(-1)\ny = x.exp()\nf(y).add_(1)\ny.sum().backward()",
    "y = torch.as_tensor(x.exp())\ny.add_(1)\ny.sum().backward()",
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_saved_content_is_what_backward_misses(program: str) -> None:
    text = PRELUDE + dedent(program)
    events = ModuleFacts(ast.parse(text), text).recording.events.values()
    writes = [event for event in events if isinstance(event, InplaceWrite)]
    assert any(saved.records for write in writes for saved in write.saved) == _backward_misses_something(text)


def _backward_misses_something(text: str) -> bool:
    try:
        exec(compile(text, "program", "exec"), {})
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error), error
        return True
    return False
