"""Whole programs: what is told of the names of a file, against running it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import pytest

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Sequence, Shape, Tensor, Value

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"

CONVOLUTIONS = """
class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.bn = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, stride=2)
        self.pool = nn.MaxPool2d(2)
        self.features = nn.Sequential(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten())
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.bn(self.conv1(x))))
        x = self.conv2(x)
        return self.fc(self.features(x))

images = torch.randn(4, 3, 32, 32)
logits = Net()(images)
best = logits.argmax(dim=1)
values, indices = logits.max(dim=1, keepdim=True)
log_probabilities = F.log_softmax(logits, dim=-1)
loss = F.cross_entropy(logits, best)
"""

ATTENTION = """
class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.head_width = width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(batch, length, self.heads, self.head_width).transpose(1, 2)
        k = k.view(batch, length, self.heads, self.head_width).transpose(1, 2)
        v = v.reshape(batch, length, self.heads, -1).permute(0, 2, 1, 3)
        weights = (q @ k.transpose(-2, -1) / self.head_width ** 0.5).softmax(dim=-1)
        mixed = (weights @ v).transpose(1, 2).contiguous().view(batch, length, -1)
        return self.out(mixed)

x = torch.randn(2, 7, 64)
y = Attention(64, 8)(x)
mask = torch.tril(torch.ones(7, 7)).bool()
scores = torch.einsum('bid,bjd->bij', y, y).masked_fill(~mask, float('-inf'))
last = y[:, -1]
first_two = y[:, :2, None]
*batch_dims, width = y.shape
flat = y.view(-1, y.size(-1))
folded = y.reshape(*y.shape[:-1], 8, 8)
"""

RECURRENT = """
embedding = nn.Embedding(100, 32)
lstm = nn.LSTM(32, 48, num_layers=2, batch_first=True, bidirectional=True)
tokens = torch.randint(0, 100, (5, 11))
embedded = embedding(tokens)
output, (h, c) = lstm(embedded)
final = torch.cat([h[-2], h[-1]], dim=1)
scores = nn.Linear(96, 3)(final)
hot = F.one_hot(tokens, num_classes=100)
rows = [torch.zeros(4) for _ in range(3)]
left, right = output.split(48, dim=2)
"""

IN_PLACE = """
x = torch.zeros(3, 4)
x += torch.ones(4)
y = torch.zeros(3, 4)
y.unsqueeze_(0)
z = torch.zeros(2, 3, 4)
z.transpose_(0, 2)
w = torch.empty(2, 5)
torch.nn.init.normal_(w)
n = torch.arange(10).view(2, 5)[:, 1:]
for i in range(3):
    x = x * 2
biggest, places = x.max(dim=1)
chosen = torch.arange(12).view(3, 4)[torch.arange(3), places]
total = x.sum() + 1
if total > 0:
    x = x[:1]
"""


@pytest.mark.parametrize("program", [CONVOLUTIONS, ATTENTION, RECURRENT, IN_PLACE])
def test_names_have_the_shapes_told(program: str, bench: Any) -> None:
    names: dict[str, Any] = {}
    exec(HEAD + program, names)
    facts = ModuleFacts(ast.parse(HEAD + program), HEAD + program)
    real = {name: tuple(value.shape) for name, value in names.items() if isinstance(value, bench.torch.Tensor)}
    told = {name: shape_told(facts.globals, name) for name in real}
    assert {name: shape for name, shape in told.items() if shape is not None and not agrees(shape, real[name])} == {}
    assert [name for name, shape in told.items() if shape is None] == []


def shape_told(names: Mapping[str, Value], name: str) -> Shape | None:
    value = names.get(name)
    assert not isinstance(value, Sequence)
    return value.shape if isinstance(value, Tensor) else None


def agrees(told: Shape, real: tuple[int, ...]) -> bool:
    return len(told) == len(real) and all(a is None or a == b for a, b in zip(told, real, strict=True))


def test_nothing_is_told_of_a_scalar_along_an_axis() -> None:
    text = f"{HEAD}x = torch.tensor(3)\na = x.repeat_interleave(2, dim=0)\nb = x.unflatten(0, (1,))\nc = x.topk(1)\n"
    facts = ModuleFacts(ast.parse(text), text)
    assert [getattr(facts.globals.get(name), "shape", None) for name in "abc"] == [None, None, None]
