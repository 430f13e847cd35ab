"""Write a training script of a given number of lines: ``python make_training_file.py [LINES] > train.py``."""

from __future__ import annotations

import itertools
import sys

_HEAD = '''\
"""A generated training script."""

import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger(__name__)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


'''

_STAGE = '''\
class Mixer{n}(nn.Module):
    """Mixes channels of width {width}."""

    def __init__(self, width: int = {width}, heads: int = 8, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        normed = self.norm(tokens)
        mixed, _ = self.attention(normed, normed, normed, need_weights=False)
        tokens = tokens + self.dropout(mixed)
        hidden = F.gelu(self.up(tokens))
        return tokens + self.dropout(self.down(hidden))


class Points{n}(Dataset):
    """Points on both sides of a plane."""

    def __init__(self, count: int = {count}) -> None:
        self.points = torch.randn(count, {width})
        self.sides = (self.points.sum(dim=1) > 0).long()

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.points[index], self.sides[index]


def train_{n}(model: nn.Module, batches: DataLoader, optimizer: torch.optim.Optimizer) -> float:
    """Train for an epoch; return the mean loss."""
    model.train()
    total = 0.0
    for step, (points, sides) in enumerate(batches):
        points, sides = points.to(DEVICE), sides.to(DEVICE)
        optimizer.zero_grad(set_to_none=True)
        logits = model(points)
        loss = F.cross_entropy(logits, sides)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        if step % 100 == 0:
            log.info("step %d: %.3f", step, total / (step + 1))
    return total / max(len(batches), 1)


@torch.no_grad()
def accuracy_{n}(model: nn.Module, batches: DataLoader) -> float:
    """Return the share of points on the right side."""
    model.eval()
    right = seen = 0
    for points, sides in batches:
        guesses = model(points.to(DEVICE)).argmax(dim=-1)
        right += int((guesses == sides.to(DEVICE)).sum())
        seen += sides.numel()
    return right / max(seen, 1)


'''

_TAIL = """\
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    torch.manual_seed(parser.parse_args().seed)


if __name__ == "__main__":
    main()
"""


def training_file(lines: int) -> str:
    """Return a script of exactly so many lines; at least those of its frame."""
    text, room = "", lines - _HEAD.count("\n") - _TAIL.count("\n")
    for n in itertools.count():
        stage = _STAGE.format(n=n, width=64 * (1 + n % 8), count=1000 + n)
        if text.count("\n") + stage.count("\n") > room:
            break
        text += stage
    filling = "".join(f"LIMIT_{n} = {n}\n" for n in range(room - text.count("\n")))
    return _HEAD + text + filling + _TAIL


if __name__ == "__main__":
    sys.stdout.write(training_file(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
