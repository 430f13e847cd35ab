"""A training step on the simulated GPU beside one on the CPU: ``python tests/bench/bench_sim.py [--rounds N]``.

The two run in turns in one process, so that both meet the same neighbours; the ratio of the medians is the figure.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2] / "analyzers"))

from drygrad.worker.devices import sim

Step = Callable[[], None]


class Block(nn.Module):
    """One layer of a small GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.attention(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(self.second(x))


class Gpt(nn.Module):
    """A small GPT: 4 layers of width 128."""

    def __init__(self, words: int = 512, width: int = 128) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(4)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.words(x) + self.places(places))))


def gpt(device: str, batch: int) -> Step:
    """A step of the GPT at 128 words."""
    model = Gpt().to(device)
    optimizer: Any = torch.optim.AdamW(model.parameters())
    x = torch.randint(512, (batch, 128), device=device)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(model(x).flatten(0, 1), x.flatten()))
        optimizer.step()

    return step


def convolutional(device: str, batch: int) -> Step:
    """A step of a small convolutional network with residual connections left out."""
    layers: list[nn.Module] = []
    for inside, outside in ((3, 16), (16, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(256, 10)).to(device)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(batch, 3, 32, 32, device=device), torch.randint(10, (batch,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(model(x), y))
        optimizer.step()

    return step


def milliseconds(step: Step) -> float:
    """The time of one step."""
    started = time.perf_counter()
    step()
    return (time.perf_counter() - started) * 1e3


def main() -> None:
    """Measure, and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    sim.enable()
    print(f"enable {(time.perf_counter() - started) * 1e3:.0f} ms\n{'':24}{'cpu ms':>9}{'sim ms':>9}{'ratio':>8}")
    for name, make, batch in (("GPT", gpt, 1), ("GPT", gpt, 8), ("convolutions", convolutional, 16)):
        steps = {device: make(device, batch) for device in ("cpu", "cuda")}
        taken: dict[str, list[float]] = {device: [] for device in steps}
        for turn in range(options.rounds + 3):
            for device, step in steps.items():
                duration = milliseconds(step)
                if turn >= 3:
                    taken[device].append(duration)
        cpu, simulated = (statistics.median(times) for times in taken.values())
        print(f"{f'{name}, batch {batch}':24}{cpu:9.1f}{simulated:9.1f}{simulated / cpu:8.2f}")


if __name__ == "__main__":
    main()
