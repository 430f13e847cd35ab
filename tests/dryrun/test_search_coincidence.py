"""Inputs that fit only because two sizes are equal by chance, or because they contradict what is written of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.findings import findings
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.targets import target_named
from drygrad.model import Finding
from drygrad.settings import Settings


def ran(worker: WorkerClient, folder: Path, text: str, qualname: str) -> list[Finding]:
    source = source_of(text)
    target = target_named(source, qualname)
    assert target is not None
    options = RunOptions(root=folder, device="cpu", timeout=120.0, search_seconds=60.0)
    plans = plan_runs(source, folder / "program.py", target, options)
    assert not isinstance(plans, Missing)
    result = Result.read(worker.run(plans[0].as_json()))
    return findings(result, plans[0], source, Settings(), "run")


TAGGER = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

class Tagger(nn.Module):
    def __init__(self, vocab: int, {name}: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, 32)
        self.out = nn.Linear(32, {size})

    def forward(self, tokens):
        return self.out(self.embed(tokens))

class Trainer:
    def __init__(self, model: Tagger):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(self, tokens, tags):
        '''Learn from ``tokens`` (B, T) long and ``tags`` {shape} long.'''
        logits = self.model(tokens)
        loss = F.cross_entropy(logits{change}, tags)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("name", "size", "shape", "change", "codes"),
    [
        ("n_tags", "n_tags", "(B, T)", "", ["DG313"]),
        ("n_tags", "n_tags", "(B, T)", ".transpose(1, 2)", []),
        # the start and the end of an answer: it is the positions that are the classes
        ("hidden", "2", "(B, S)", "", []),
        ("hidden", "hidden", "(B, T)", "", []),
    ],
)
def test_time_that_is_as_long_as_there_are_classes_is_no_success(
    worker: WorkerClient, tmp_path: Path, name: str, size: str, shape: str, change: str, codes: list[str]
) -> None:
    text = TAGGER.format(name=name, size=size, shape=shape, change=change)
    found = ran(worker, tmp_path, text, "Trainer.step")
    assert [f.code for f in found if f.code != "DG901"] == codes


TOLD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self, n_in: int):
        super().__init__()
        self.out = nn.Linear(n_in, 1)

    def forward(self, x):
        return self.out(x)

def step(model: Net, data):
    {told}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = F.mse_loss(model(data["x"]), data["y"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("told", "codes"),
    [
        ('"""Fit to ``data`` (keys: x (N, F), y (N,))."""', ["DG303"]),
        ('"""Fit to ``data`` (keys: x (N, F), y (N, 1))."""', []),
        ('"""Fit to ``data``."""', []),
    ],
)
def test_a_loss_that_fits_only_against_what_is_written_of_its_target(
    worker: WorkerClient, tmp_path: Path, told: str, codes: list[str]
) -> None:
    found = ran(worker, tmp_path, TOLD.format(told=told), "step")
    assert [f.code for f in found] == codes
    assert all(f.severity == "warning" and "if the documented shape of" in f.message for f in found)
