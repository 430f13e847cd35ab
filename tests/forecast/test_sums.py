"""Gradients of several paths are added up in place in a forecast where autograd does so, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from worker_client import WorkerClient, plan

pytestmark = pytest.mark.slow  # whole programs, run and forecast

START = """\
import torch
x = torch.randn(1 << 20, device="cuda", requires_grad=True)
y = torch.tanh(x)
"""
END = "\nprint('PEAK', torch.cuda.max_memory_allocated())\n"
PROGRAMS = {
    "residual": "for _ in range(6):\n    y = y + torch.relu(y)\ny.square().sum().backward()",
    "two paths": "(torch.sigmoid(y).square().sum() + (y * 2).square().sum()).backward()",
    "a gradient that is kept": (
        "kept = []\ns = torch.sigmoid(y)\ns.register_hook(kept.append)\n"
        "(s.square().sum() + (s + y).square().sum()).backward()"
    ),
    "an expanded gradient": "(y.sum() + y.square().sum()).backward()",
    "sums of the user's": (
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return x * 2\n"
        "    @staticmethod\n    def backward(ctx, g):\n        h = g * 1\n        return h + g * 1\n"
        "Twice.apply(torch.tanh(y)).square().sum().backward()"
    ),
}


def test_peaks_are_those_of_runs_that_have_the_memory(tmp_path: Path) -> None:
    told: dict[str, int] = {}
    counted: dict[str, int] = {}
    with WorkerClient() as worker:
        for name, text in PROGRAMS.items():
            program = START + text + END
            followed = worker.run(plan(tmp_path, program, device="sim", forecast={"gpu": None}))
            ran = worker.run(plan(tmp_path, program, device="sim", instruments=[], backward_probe=False))
            told[name] = followed["forecast"]["peak_allocated"]
            counted[name] = int(ran["output"]["text"].split("PEAK")[1])
    assert told == counted
