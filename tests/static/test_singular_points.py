"""The verdict on singular operations, held against what torch computes at the edge: sources x operations x guards."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from drygrad.settings import Settings
from drygrad.static.engine import Analyzer
from drygrad.static.source import Source

SOURCES = {
    "d = x - x": "torch.rand(2, 3) + 1",
    "d = torch.sub(x, x.detach())": "torch.rand(2, 3) + 1",
    "d = x * 0": "torch.rand(2, 3) + 1",
    "d = x.amax(dim=-1, keepdim=True) - x": "torch.rand(2, 3)",
    "d = F.relu(x)": "-torch.rand(2, 3)",
    "d = self.act(x)": "-torch.rand(2, 3)",
    "d = x.norm(dim=1, keepdim=True)": "torch.zeros(2, 3)",
    "d = torch.var(x, dim=0)": "torch.ones(2, 3)",
    "d = (x > 9).float().sum(dim=1, keepdim=True)": "torch.rand(2, 3)",
    "d = 1 - x.sigmoid()": "torch.full((2, 3), 99.0)",
}
GUARDS = (
    "pass",
    "d = d + 1e-3",
    "d = d.clamp(min=1e-3)",
    "d = torch.where(d == 0, torch.ones_like(d), d)",
    "d = d + self.eps",
)
OPERATIONS = (
    "out = y / d",
    "out = torch.true_divide(y, d)",
    "out = y * d.reciprocal()",
    "out = y * d ** -1",
    "out = y * torch.rsqrt(d)",
    "out = y.div(d + 1)",
    "out = torch.where(d > 0, y / d, torch.zeros_like(y))",
    "out = torch.exp(-d)",
)
SPELLINGS = {
    "local": "        {source}\n        {guard}\n        {operation}\n",
    "tuple": "        {source}\n        {guard}\n        _, d = y, d\n        {operation}\n",
    "loop": "        for part in (y, y):\n            {source}\n            {guard}\n            {operation}\n",
    "attribute": "        {source}\n        {guard}\n        self.d = d\n        d = self.d\n        {operation}\n",
}
PROGRAM = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.eps = 1e-3
        self.act = nn.ReLU()

    def forward(self, x, y):
{body}        return out.sum()
"""


def programs() -> list[tuple[str, str]]:
    """Return the programs, each with what its input is at the edge: every pair of a source and an operation once."""
    made: list[tuple[str, str]] = []
    spellings = itertools.cycle(SPELLINGS.values())
    guards = itertools.cycle((GUARDS[0], GUARDS[0], *GUARDS))
    for source, operation in itertools.product(SOURCES, OPERATIONS):
        body = next(spellings).format(source=source, guard=next(guards), operation=operation)
        made.append((PROGRAM.format(body=body), SOURCES[source]))
    return made


def fails_in_torch(text: str, edge: str) -> bool:
    names: dict[str, type[torch.nn.Module]] = {}
    exec(text, names)
    x = eval(edge, {"torch": torch}).requires_grad_()
    y = (torch.rand(2, 3) + 0.5).requires_grad_()
    out = names["Net"]()(x, y)
    if out.requires_grad:
        out.backward()
    results = [out, *(tensor.grad for tensor in (x, y) if tensor.grad is not None)]
    return not all(math.isfinite(result.sum().item()) for result in results)


def is_found(text: str) -> bool:
    return any(f.code.startswith("DG40") for f in Analyzer(Settings()).check(Source(text)).findings)


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_found_fails_in_torch_and_what_fails_is_found(source: str) -> None:
    for text, edge in programs():
        if source in text:
            assert is_found(text) == fails_in_torch(text, edge), text
