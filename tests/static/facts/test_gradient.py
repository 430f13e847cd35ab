"""Which tensors require grad, and which were cut out of their graph."""

from __future__ import annotations

import ast

import pytest

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Tensor

PRELUDE = "import torch\nimport torch.nn as nn\nx = torch.rand(3, requires_grad=True)\n"


def tensor(text: str) -> Tensor:
    """Return the value of ``y`` at the end of a program."""
    program = PRELUDE + text
    value = ModuleFacts(ast.parse(program), program).globals["y"]
    assert isinstance(value, Tensor)
    return value


@pytest.mark.parametrize(
    ("text", "requires_grad", "cut"),
    [
        ("y = torch.rand(3)\ny.requires_grad = True", True, False),
        ("y = x.detach()\ny.requires_grad = True", True, False),
        ("y = x.detach()\ny.requires_grad_()", True, False),
        ("y = torch.as_tensor(x)", True, False),
        ("y = torch.tensor(x)", False, True),
        ("y = torch.tensor([x[0], x[1]])", False, True),
        ("y = torch.FloatTensor([x[0], x[1]])", False, True),
        ("y = torch.tensor([1.0, 2.0])", False, False),
        ("y = x * 2\nwith torch.no_grad():\n    y.mul_(2)", True, False),
        ("y = nn.Linear(3, 3)(torch.rand(3))", True, False),
        ("x.requires_grad = True\ny = nn.Linear(3, 3)(torch.rand(3))", True, False),
        ("f = nn.Linear(3, 3)\nfor p in f.parameters():\n    p.requires_grad = 0\ny = f(torch.rand(3))", None, False),
        ("net = nn.Linear(3, 3)\nnet.requires_grad_(False)\ny = net.weight", None, False),
        ("y = unseen * (torch.arange(3) < 2)", None, True),
        ("y = torch.where(torch.arange(3) < 2, unseen, 0.0)", None, True),
        ("y = torch.cat([torch.arange(3), unseen])", None, False),
        ("y = abs(x * 2)", True, False),
        ("y = round(x.detach())", False, True),
        ("y = (torch.arange(3) < 2).view(unseen)", False, True),
    ],
)  # fmt: skip
def test_requires_grad(text: str, requires_grad: bool | None, cut: bool) -> None:
    made = tensor(text)
    assert (made.requires_grad, made.cut is not None) == (requires_grad, cut)
