"""What the forward of a module returns is gone backward from, also where it has run a backward pass itself."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from worker_client import WorkerClient, argument, plan

MODULE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Parameter(torch.randn(8))

    def forward(self, x):
"""


def faults(worker: WorkerClient, folder: Path, body: str, receiver: str = "Net()") -> list[tuple[Any, ...]]:
    text = MODULE + indent(body, "        ")
    given = {"receiver": {"name": "self", "text": receiver, "source": "comment"}}
    x = argument("torch.randn(2, 8, requires_grad=True)", name="x")
    result = worker.run(plan(folder, text, "Net.forward", arguments=[x], setup=[[1, 0], [2, 0], [5, 0]], **given))
    assert result["outcome"] == "passed", result
    assert not [note for note in result["notes"] if "failed" in note]
    found = result["faults"]
    return [(f["code"], f["at"]["line"], f["severity"], [r["at"]["line"] for r in f["related"]]) for f in found]


def test_a_result_whose_graph_is_freed_is_told(worker: WorkerClient, tmp_path: Path) -> None:
    body = "y = x * self.book\n(y - x).pow(2).mean().backward()\nreturn y\n"
    assert faults(worker, tmp_path, body) == [("DG113", 13, "warning", [12])]


@pytest.mark.parametrize(
    "body",
    [
        "loss = (x * self.book).pow(2).mean()\nloss.backward()\nreturn loss\n",
        "y = x * self.book\nloss = y.pow(2).mean()\nloss.backward()\nreturn y, 4 * loss\n",
        "y = x * self.book\ny.pow(2).mean().backward()\nreturn y.detach()\n",
        "y = (x * self.book).pow(2)\nreturn y, torch.autograd.grad(y.sum(), x, create_graph=True)[0]\n",
        "y = x * self.book\ny.pow(2).mean().backward(retain_graph=True)\nreturn y\n",
    ],
)
def test_what_nobody_goes_backward_from_is_quiet(worker: WorkerClient, tmp_path: Path, body: str) -> None:
    assert faults(worker, tmp_path, body) == []


def test_a_module_that_is_evaluated_is_not_probed(worker: WorkerClient, tmp_path: Path) -> None:
    body = "y = x * self.book\n(y - x).pow(2).mean().backward()\nreturn y\n"
    assert faults(worker, tmp_path, body, "Net().eval()") == []
