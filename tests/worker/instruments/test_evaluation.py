"""Graphs of evaluations that nobody uses; whatever may be used gives nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import spots, watch

from drygrad.worker.instruments.evaluation import Evaluation

SETUP = """\
model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)).eval()
batches = [torch.ones(2, 3)] * 3
"""
USELESS = "for x in batches:\n    hits = (model(x).argmax(1) == 0).sum().item()\n"
TRAINING = "model.train()\nmodel(batches[0]).sum().backward()\nmodel.eval()\n"

SILENT = {
    "no_grad": "with torch.no_grad():\n    for x in batches:\n        model(x)\n",
    "training mode": "model.train()\nfor x in batches:\n    model(x)\n",
    "one pass": "model(batches[0]).argmax(1)\n",
    "frozen": "model.requires_grad_(False)\nfor x in batches:\n    model(x)\n",
    "used by backward": "loss = 0\nfor x in batches:\n    loss = loss + model(x).sum()\nloss.backward()\n",
    "saliency": "for x in batches:\n    x = x.clone().requires_grad_()\n    model(x).sum().backward()\n",
}


def test_each_pass_of_a_loop_records_a_graph(tmp_path: Path) -> None:
    assert spots(watch(tmp_path, SETUP + USELESS, Evaluation)) == [("DG506", 4)]


def test_after_training(tmp_path: Path) -> None:
    assert spots(watch(tmp_path, SETUP + TRAINING + USELESS, Evaluation)) == [("DG506", 7)]


@pytest.mark.parametrize("program", SILENT.values(), ids=list(SILENT))
def test_what_may_be_used_is_silent(tmp_path: Path, program: str) -> None:
    assert spots(watch(tmp_path, SETUP + program, Evaluation)) == []


def test_a_pass_that_raises_does_not_confuse_the_count(tmp_path: Path) -> None:
    broken = "try:\n    model(torch.ones(2, 5))\nexcept RuntimeError:\n    pass\n"
    assert spots(watch(tmp_path, SETUP + broken + USELESS, Evaluation)) == [("DG506", 8)]
