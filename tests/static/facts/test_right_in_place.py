"""Writes in place that backward does not mind: these programs run on torch, and nothing is said of them."""

from __future__ import annotations

import pytest

from drygrad.static.engine import Analyzer
from drygrad.static.source import Source

PRELUDE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
leaf = torch.rand(4, 4, requires_grad=True)
other = torch.rand(4, 4)
learned = torch.rand(4, 4, requires_grad=True)
x = leaf * 0.5 + 0.3
"""
PROGRAMS = """
y = F.huber_loss(x * 2, other)
x.add_(1)
y.backward()
---
y = F.pad(x[None], (1, 1, 1, 1))
x.mul_(2)
y.sum().backward()
---
y = torch.logaddexp(x, other)
z = y.clone()
z.add_(1)
z.sum().backward()
---
y = torch.cat([x, other])
x.zero_()
y.sum().backward()
---
y = F.interpolate(x[None, None], scale_factor=2, mode="bilinear")
x.add_(1)
y.sum().backward()
---
y = F.dropout(x, 0.5)
x.add_(1)
y.sum().backward()
---
y = torch.outer(x[0], other[0])
x.add_(1)
y.sum().backward()
---
y = torch.addmm(x, other, other)
x.add_(1)
y.sum().backward()
---
y = torch.lerp(x, leaf, 0.5)
x.add_(1)
y.sum().backward()
---
y = x.max(dim=1).values
x.add_(1)
y.sum().backward()
---
y = x.std() * 2
y.add_(1)
y.backward()
---
y = torch.where(x > 0.5, x, other)
x.add_(1)
y.sum().backward()
---
y = F.conv_transpose2d(other[None, None], learned[None, None])
y.add_(1)
y.sum().backward()
---
y = F.embedding(torch.tensor([0, 1]), learned)
y.mul_(2)
y.sum().backward()
---
y = F.log_softmax(x, 1)
z = y + 1
z.add_(1)
z.sum().backward()
---
y = torch.linalg.inv(x + 4 * torch.eye(4)) + 1
y.add_(1)
y.sum().backward()
---
y = F.glu(x) - 1
y.add_(1)
y.sum().backward()
---
y = torch.einsum("ij,jk->ik", x, other)
x.add_(1)
y.sum().backward()
---
y = torch.tensordot(other, learned, 1)
y.clamp_(0)
y.sum().backward()
---
y = F.cross_entropy(x, torch.tensor([0, 1, 2, 3]))
x.add_(1)
y.backward()
---
y = F.nll_loss(x.log_softmax(1), torch.tensor([0, 1, 2, 3]))
x.add_(1)
y.backward()
---
y = x.cumsum(0)
x.add_(1)
y.sum().backward()
---
y = nn.Dropout(0.1)(x)
x.add_(1)
y.sum().backward()
---
y = nn.LayerNorm(4)(x)
y.add_(1)
y.sum().backward()
---
y = nn.BatchNorm1d(4)(x)
y.relu_()
y.sum().backward()
---
y = nn.Embedding(10, 4)(torch.tensor([1, 2]))
y += 1
y.sum().backward()
---
y = F.scaled_dot_product_attention(x[None], x[None], x[None]) * 3
y.add_(1)
y.sum().backward()
---
y = torch.sort(x).values
x.add_(1)
y.sum().backward()
---
mask = torch.zeros(4, 4)
y = x + mask
mask.fill_(1)
y.sum().backward()
---
scale = torch.ones(4, 4)
with torch.no_grad():
    y = leaf * scale
scale.add_(1)
(x.sum() + y.sum()).backward()
---
y = x / other
x.add_(1)
y.sum().backward()
---
y = F.linear(other, learned)
y.add_(1)
y.relu_()
y.sum().backward()
---
y = torch.atan2(x, other).detach()
x.add_(1)
(x.sum() + y.sum()).backward()
---
y = F.adaptive_avg_pool1d(x[None], 2) + 0
y.add_(1)
y.sum().backward()
"""


@pytest.mark.parametrize("program", PROGRAMS.strip().split("\n---\n"))
def test_a_write_that_backward_does_not_mind_is_left_alone(program: str) -> None:
    text = PRELUDE + program + "\n"
    exec(compile(text, "program", "exec"), {})
    codes = [finding.code for finding in Analyzer().check(Source(text)).findings]
    assert "DG101" not in codes
