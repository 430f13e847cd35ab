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
from gpt_step import training_step
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2] / "analyzers"))

from drygrad.worker.devices import sim

Step = Callable[[], object]


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
    for name, make, batch in (
        ("GPT", training_step, 1),
        ("GPT", training_step, 8),
        ("convolutions", convolutional, 16),
    ):
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
