"""Optimizers and gradients that never meet are reported; what is frozen, loaded or cleared in a closure is not."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
from instrument_harness import said, spots, the_fault, watch

from drygrad.worker.instruments.graph import Graph
from drygrad.worker.instruments.idle_optimizers import IdleOptimizers

SETUP = """\
import copy
encoder, head, x = nn.Linear(3, 3), nn.Linear(3, 1), torch.randn(2, 3)
"""
LOOP = "for _ in range(3):\n    optimizer.zero_grad()\n    {}.sum().backward()\n    optimizer.step()\n"


def test_an_optimizer_of_another_instance(tmp_path: Path) -> None:
    program = SETUP + "optimizer = torch.optim.SGD(head.parameters(), 0.1)\nhead = copy.deepcopy(head)\n"
    run = watch(tmp_path, program + LOOP.format("head(x)"), Graph, IdleOptimizers)
    the_fault(run, "DG738", 3, "none of this optimizer's 2 parameters got a gradient in any of 3 steps")


def test_an_optimizer_whose_parameters_are_frozen_after_it_was_made(tmp_path: Path) -> None:
    program = SETUP + "optimizer = torch.optim.SGD(encoder.parameters(), 0.1)\nencoder.requires_grad_(False)\n"
    run = watch(tmp_path, program + LOOP.format("head(encoder(x))"), Graph, IdleOptimizers)
    the_fault(run, "DG738", 3, "all parameters of this optimizer are frozen, so step() has no effect")


def test_an_output_that_was_detached(tmp_path: Path) -> None:
    program = SETUP + "optimizer = torch.optim.SGD(encoder.parameters(), 0.1)\n"
    body = "made = encoder(x).detach()\nhead(made).sum().backward()\noptimizer.step()\n"
    run = watch(tmp_path, program + "for _ in range(3):\n" + indent(body, "    "), Graph, IdleOptimizers)
    assert ("DG738", 5) in spots(run)


def test_a_loss_that_is_a_sum_of_numbers(tmp_path: Path) -> None:
    program = SETUP + "optimizer = torch.optim.SGD(head.parameters(), 0.1)\n"
    body = "made = head(x).relu()\nloss = torch.zeros(1, requires_grad=True) + made.sum().item()\n"
    body += "loss.sum().backward()\noptimizer.step()\n"
    run = watch(tmp_path, program + "for _ in range(3):\n" + indent(body, "    "), Graph, IdleOptimizers)
    the_fault(run, "DG738", 6, "the graph is cut here, after the optimizer's parameters: none of its 2 parameters")


def test_an_encoder_that_was_left_out(tmp_path: Path) -> None:
    program = SETUP + "optimizer = torch.optim.SGD(head.parameters(), 0.1)\n" + LOOP.format("head(encoder(x))")
    fault = the_fault(watch(tmp_path, program, Graph, IdleOptimizers), "DG739", 3, "2 parameters get gradients")
    assert "`encoder.weight`" in fault.message


@pytest.mark.parametrize(
    "program",
    [
        "optimizer = torch.optim.SGD([*head.parameters(), *encoder.parameters()], 0.1)\n" + LOOP,
        "encoder.requires_grad_(False)\noptimizer = torch.optim.SGD(head.parameters(), 0.1)\n" + LOOP,
        "encoder.load_state_dict(copy.deepcopy(encoder).state_dict())\n"
        "optimizer = torch.optim.SGD(head.parameters(), 0.1)\n" + LOOP,
        "encoder.eval()\noptimizer = torch.optim.SGD(head.parameters(), 0.1)\n" + LOOP,
        "optimizer = torch.optim.SGD([*head.parameters(), *encoder.parameters()], 0.1)\nfor _ in range(3):\n"
        "    optimizer.zero_grad()\n    def closure():\n        loss = head(encoder(x)).sum()\n"
        "        loss.backward()\n        return loss\n    optimizer.step(closure)\n",
        "encoder.requires_grad_(False)\noptimizer = torch.optim.SGD(encoder.parameters(), 0.1)\nfor _ in range(3):\n"
        "    encoder.weight.grad = torch.ones(3, 3)\n    optimizer.step()\n",
        "other = torch.optim.SGD(encoder.parameters(), 0.1)\noptimizer = torch.optim.SGD(head.parameters(), 0.1)\n"
        + LOOP,
    ],
)
def test_what_is_meant(tmp_path: Path, program: str) -> None:
    text = SETUP + program.replace("{}", "head(encoder(x))")
    assert said(watch(tmp_path, text, Graph, IdleOptimizers)) == []
