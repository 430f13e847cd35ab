"""Growth from step to step: told of what a training loop keeps, and of no loop that keeps nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worker_client import WorkerClient, plan

PROGRAM = """\
import torch
from torch import nn

def net():
    return nn.Sequential(nn.Linear(640, 2048), nn.GELU(), nn.Linear(2048, 640)).cuda()

def step(model, optimizer, x):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss

def adam(model):
    return torch.optim.AdamW(model.parameters())

def keeps_batches():
    model, kept = net(), []
    optimizer = adam(model)
    for _ in range(9):
        x = torch.randn(1024, 640, device="cuda")
        kept.append(x)
        step(model, optimizer, x)

def keeps_graphs():
    model, total = net(), 0
    optimizer = adam(model)
    for _ in range(9):
        loss = model(torch.randn(1024, 640, device="cuda")).square().mean()
        total = total + loss
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()

def keeps_outputs():
    model, outputs = net(), []
    optimizer = adam(model)
    for _ in range(9):
        x = torch.randn(1024, 640, device="cuda")
        step(model, optimizer, x)
        outputs.append(model(x))

def two_optimizers():
    one, other, seen = net(), net(), {}
    first, second = adam(one), adam(other)
    for k in range(9):
        x = torch.randn(1024, 640, device="cuda")
        step(one, first, x)
        seen[k] = one(x).detach()
        step(other, second, x)

def keeps_nothing():
    model = net()
    optimizer = adam(model)
    for _ in range(9):
        loss = step(model, optimizer, torch.randn(1024, 640, device="cuda"))

def fetches_ahead():
    model = net()
    optimizer = adam(model)
    ahead = torch.randn(1024, 640, device="cuda")
    for _ in range(9):
        x, ahead = ahead, torch.randn(1024, 640, device="cuda")
        step(model, optimizer, x)

def averages_late():
    model, mean = net(), None
    optimizer = adam(model)
    for k in range(9):
        step(model, optimizer, torch.randn(1024, 640, device="cuda"))
        if k == 1:
            mean = [p.detach().clone() for p in model.parameters()]

def history():
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)
    x = torch.randn(64, 640, device="cuda")
    for _ in range(9):
        def closure():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss
        optimizer.step(closure)

def each_its_own():
    model = nn.Sequential(*[nn.Linear(600, 600) for _ in range(12)]).cuda()
    optimizers = [adam(layer) for layer in model]
    for _ in range(3):
        model(torch.randn(1024, 600, device="cuda")).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

def in_hooks():
    model = nn.Sequential(*[nn.Linear(600, 600) for _ in range(12)]).cuda()
    optimizers = {p: torch.optim.SGD([p], momentum=0.9) for p in model.parameters()}
    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)
    for _ in range(3):
        model(torch.randn(1024, 600, device="cuda")).square().mean().backward()
"""
BATCH = 4 * 1024 * 640
LAYERS = 12 * 4 * (600 * 600 + 600)


class Forecasts:
    """The forecasts of all functions of the program, by one worker."""

    def __init__(self, folder: Path, worker: WorkerClient) -> None:
        self._folder, self._worker = folder, worker

    def of(self, name: str) -> dict[str, Any]:
        wanted = plan(self._folder, PROGRAM, target=name, device="sim", forecast={"gpu": None})
        result = self._worker.run(wanted)
        assert result["outcome"] == "passed", result["error"]
        return result["forecast"]


@pytest.fixture(scope="module")
def forecasts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with WorkerClient() as worker:
        yield Forecasts(tmp_path_factory.mktemp("growth"), worker)


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if text in line)


def test_kept_batches(forecasts: Forecasts) -> None:
    grows = forecasts.of("keeps_batches")["grows"]
    assert grows["bytes"] == BATCH
    assert grows["line"] == line_of("x = torch.randn")


def test_kept_graphs(forecasts: Forecasts) -> None:
    grows = forecasts.of("keeps_graphs")["grows"]
    activations = 4 * 1024 * (640 + 2 * 2048 + 640)
    assert activations <= grows["bytes"] < 1.1 * activations
    assert grows["line"] == line_of("loss = model(torch.randn")


def test_what_is_kept_after_the_step(forecasts: Forecasts) -> None:
    """It is there from the second step on, so it takes a pass more to see it grow; nothing goes back through it."""
    told = forecasts.of("keeps_outputs")
    activations = 4 * 1024 * (640 + 2 * 2048 + 640)
    assert activations <= told["grows"]["bytes"] < 1.1 * activations
    assert told["grows"]["line"] == line_of("outputs.append")
    assert len(told["steps"]) == 4
    kept = [row for row in told["tensors"] if row["line"] == line_of("outputs.append") and row["kept_by"]]
    assert {row["kept_by"]["operation"] for row in kept} == {"gelu", "a linear layer or matrix product"}
    assert {row["kind"] for row in kept} == {"activations"}


def test_a_pass_has_the_steps_of_all_optimizers(forecasts: Forecasts) -> None:
    grows = forecasts.of("two_optimizers")["grows"]
    assert grows["bytes"] == BATCH
    assert grows["line"] == line_of("seen[k]")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["keeps_nothing", "fetches_ahead", "averages_late", "history", "each_its_own", "in_hooks"]
)
def test_nothing_is_left_behind(forecasts: Forecasts, name: str) -> None:
    assert forecasts.of(name)["grows"] is None


@pytest.mark.slow
def test_every_optimizer_of_a_loop_steps(forecasts: Forecasts) -> None:
    told = forecasts.of("each_its_own")
    assert told["kinds"]["states"] >= 2 * LAYERS


@pytest.mark.slow
def test_steps_in_hooks_are_of_the_optimizer(forecasts: Forecasts) -> None:
    told = forecasts.of("in_hooks")
    (row,) = (row for row in told["by_line"] if row["line"] == line_of("optimizers[p].step"))
    assert row["kind"] == "states"
    assert row["bytes"] >= LAYERS
    assert set(told["phases"]) == {"forward", "backward", "optimizer"}
