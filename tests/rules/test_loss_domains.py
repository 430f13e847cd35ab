"""What a loss gets in another domain than it asks for is told in every spelling, and the repaired twin in none."""

from __future__ import annotations

import pytest
from rule_harness import Example

DOMAINS = frozenset("DG304 DG305 DG306 DG307 DG308 DG309 DG310 DG311 DG322 DG323 DG328 DG330".split())
OUTPUT = """
{1}
class Out{2}:
    scores: torch.Tensor
    chosen: int = 0

def run(x):
    return Out({0})

loss = F.cross_entropy(run(torch.randn(4, 3)).scores, y)
"""
SPELLINGS = {
    "a quotient of exponentials": (
        "def f(x, y):\n    e = torch.exp(x)\n    p = e / e.sum(1, keepdim=True)\n    return F.cross_entropy({}, y)",
        ("p", "x"),
    ),
    "the same quotient in one line": (
        "def f(x: torch.Tensor, y):\n    return F.cross_entropy(x.exp(){}, y)",
        (" / x.exp().sum(1, keepdim=True)", " - 1"),
    ),
    "a sigmoid by hand": (
        "def f(x, y):\n    p = 1 / (1 + torch.exp(-x))\n    return F.binary_cross_entropy_with_logits({}, y)",
        ("p", "x"),
    ),
    "the exponential of a log_softmax": (
        "def f(x, y):\n    return F.nll_loss(x.log_softmax(1){}, y)",
        (".exp()", ""),
    ),
    "the mean of several softmaxes": (
        "def f(x, y):\n    return F.cross_entropy(torch.stack([x.softmax(1), {}]).mean(0), y)",
        ("(2 * x).softmax(1)", "x"),
    ),
    "a clamped softmax": ("def f(x, y):\n    return F.cross_entropy(x.softmax(1).clamp(1e-6){}, y)", ("", ".log()")),
    "a part of a softmax": (
        "def f(x, y):\n    return F.cross_entropy(x.{}.narrow(0, 1, 2), y)",
        ("softmax(1)", "cpu()"),
    ),
    "scores over a temperature": (
        "net = nn.Linear(4, 3)\ndef f(x, q):\n"
        "    return F.kl_div(({}net(x) / 4.0).{}, q, reduction='batchmean')".format("", "{}"),
        ("squeeze(0)", "log_softmax(1)"),
    ),
    "scores after pooling": (
        "head = nn.Conv2d(8, 3, 1)\ndef f(x, y):\n    z = head(x).mean((2, 3))\n    return F.nll_loss({}, y)",
        ("z", "F.log_softmax(z, 1)"),
    ),
    "a partial function": (
        "from functools import partial\nact = partial({}, dim=1)\ndef f(x, y):\n    return F.cross_entropy(act(x), y)",
        ("F.softmax", "F.log_softmax"),
    ),
    "a partial loss": (
        "from functools import partial\nloss = partial({}, reduction='sum')\n"
        "def f(x: nn.Linear, z, y):\n    return loss(x(z), y)",
        ("F.binary_cross_entropy", "F.binary_cross_entropy_with_logits"),
    ),
    "an entry of a dict that is filled step by step": (
        "def f(x, y):\n    out = {{}}\n    out['raw'] = x\n    out['p'] = x.softmax(1)\n"
        "    return F.cross_entropy(out['{}'], y)",
        ("p", "raw"),
    ),
    "a field of a dataclass": (
        OUTPUT.replace("{1}", "from dataclasses import dataclass\n@dataclass").replace("{2}", ""),
        ("x.softmax(1)", "x"),
    ),
    "a field of a named tuple": (
        OUTPUT.replace("{1}", "from typing import NamedTuple").replace("{2}", "(NamedTuple)"),
        ("scores=x.softmax(1)", "scores=x"),
    ),
    "a threshold as a function": (
        "net = nn.Conv2d(3, 1, 1)\ndef f(x, y):\n    z = net(x)\n"
        "    return F.binary_cross_entropy_with_logits(z, y), torch.gt(z{}, 0.5)",
        ("", ".sigmoid()"),
    ),
    "a one-hot target from a helper": (
        "def encode(y):\n    return F.one_hot(y, 5)\n"
        "def f(net, x, y):\n    return nn.CrossEntropyLoss()(net(x), encode(y){})",
        ("", ".float()"),
    ),
    "rates of a Poisson loss": (
        "def f(x, y):\n    return F.poisson_nll_loss(F.softplus(x), y, {})",
        ("True", "False"),
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(name: str) -> None:
    text, (wrong, right) = SPELLINGS[name]
    assert [f.code for f in Example.of(text.format(wrong)).findings() if f.code in DOMAINS] != []
    assert [f.code for f in Example.of(text.format(right)).findings() if f.code in DOMAINS] == []


RIGHT = {
    "a dict that a function may change": (
        "def f(x, y):\n    out = {'p': x.softmax(1)}\n    fill(out)\n    return F.cross_entropy(out['p'], y)"
    ),
    "a dict that is updated": (
        "def f(x, y):\n    out = {'p': x.softmax(1)}\n    out.update(p=x)\n    return F.cross_entropy(out['p'], y)"
    ),
    "an entry that is overwritten": (
        "def f(x, y):\n    out = {'p': x.softmax(1)}\n    out['p'] = x\n    return F.cross_entropy(out['p'], y)"
    ),
    "a dataclass that sets its own field": (
        "from dataclasses import dataclass\n@dataclass\nclass Out:\n    p: torch.Tensor\n"
        "    def __post_init__(self):\n        object.__setattr__(self, 'p', self.p.log())\n"
        "def f(x, y):\n    return F.cross_entropy(Out(x.softmax(1)).p, y)"
    ),
    "a keyword that a call overrides": (
        "from functools import partial\nloss = partial(F.poisson_nll_loss, log_input=True)\n"
        "def f(x, y):\n    return loss(F.softplus(x), y, log_input=False)"
    ),
    "a quotient of other exponentials": (
        "def f(x, z, y):\n    return F.cross_entropy(torch.exp(x) / torch.exp(z).sum(1, keepdim=True), y)"
    ),
    "indices of many dimensions": (
        "def f(y: torch.Tensor):\n    x = torch.randn(4, 5, 7)\n    return F.cross_entropy(x, F.one_hot(y, 7))"
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    assert [f.code for f in Example.of(RIGHT[name]).findings() if f.code in DOMAINS] == []
