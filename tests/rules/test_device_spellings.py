"""Tensors that meet on two devices are told in every spelling, and their repaired twins in none."""

from __future__ import annotations

import pytest
from rule_harness import Example

MEETINGS = frozenset({"DG201", "DG205"})
PLACED = (", device='cuda'", "")
MOVED = (".cuda()", "")
SPELLINGS = {
    "an operator on a parameter without annotation": (
        "def f(p):\n    p = p.to('cuda')\n    return p - torch.zeros(8{})",
        PLACED,
    ),
    "torch's function": (
        "def f(p):\n    q = p.cuda()\n    t = torch.zeros(8{})\n    return torch.sub(t, q)",
        PLACED,
    ),
    "a method": ("def f(p):\n    q = p.cuda()\n    return torch.zeros(8{}).sub(q)", PLACED),
    "a functional loss": ("def f(p):\n    return F.mse_loss(p.to('cuda'), torch.ones(4, 1){})", MOVED),
    "an operator that assigns": (
        "a = torch.ones(3, device='cuda:0')\nb = torch.ones(3, device='cuda:{}')\na += b",
        ("0", "1"),
    ),
    "a scatter into a new tensor": (
        "def f(i):\n    i = i.to('cuda')\n    out = torch.zeros(9{})\n"
        "    return out.scatter_add_(0, i, torch.ones(9, device='cuda'))",
        PLACED,
    ),
    "a parameter's default": (
        "def f(n, device='cuda'):\n    return torch.arange(n, device=device) * torch.ones(n{})",
        (", device=device", ""),
    ),
    "old constructors": (
        "from torch.autograd import Variable\nw = Variable(torch.zeros(3).cuda(), requires_grad=True)\n"
        "y = Variable(torch.Tensor([1.0, 2.0, 3.0]){}) * w",
        MOVED,
    ),
    "the state beside a model's input": (
        "net = nn.LSTM(8, 16).cuda()\nx = torch.randn(5, 2, 8).cuda()\nh = torch.zeros(1, 2, 16){}\nnet(x, (h, h))",
        MOVED,
    ),
    "a factory in a function of the file": (
        "def noise(n):\n    return torch.randn(n, 4)\nnet = nn.Linear(4, 2).to('cuda')\nnet(noise(3){})",
        MOVED,
    ),
    "a moved part of a batch under another name": (
        "def f(model, loader, device):\n    for x, y in loader:\n        inputs = x.to(device)\n{}"
        "        out = model(inputs)\n        F.cross_entropy(out, y.long())",
        ("        y = y.to(device)\n", ""),
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(name: str) -> None:
    text, (right, wrong) = SPELLINGS[name]
    assert [f.code for f in Example.of(text.format(wrong)).findings() if f.code in MEETINGS] != []
    assert [f.code for f in Example.of(text.format(right)).findings() if f.code in MEETINGS] == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(p):\n    p = p.to('cpu')\n    return p - torch.zeros(8)",
        "def f(p):\n    return p.to(torch.float16) - torch.zeros(8)",
        "def f(p, flag):\n    if flag:\n        p = p.cuda()\n    return p - torch.zeros(8)",
        "def f(p):\n    return p.cuda() * torch.tensor(2.0)",
        "def f(p):\n    return torch.Tensor(p.shape).fill_(2.0) * p.cuda()",
        "def f(net, x):\n    net = net.cuda()\n    return net(x) - torch.zeros(8)",
    ],
)
def test_unknown_places(text: str) -> None:
    """What may be where the other operand is, or may be a number, is left alone."""
    assert [f.code for f in Example.of(text).findings() if f.code in MEETINGS] == []
