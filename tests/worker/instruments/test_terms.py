"""Terms of a loss that train nothing are told where they leave their graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import LEAF, related, spots, watch

from drygrad.worker.instruments.graph import Graph
from drygrad.worker.instruments.terms import Terms

PENALTY = """
y = (w ** 3).sum()
(slope,) = torch.autograd.grad(y, w, retain_graph=True{graph})
loss = y + 0.5 * (slope.norm() - 1) ** 2
{log}
loss.backward()
"""
USELESS = {
    PENALTY.format(graph="", log=""): ("DG116", 4, {"the term is added to the loss here": 5}),
    "wrong = (w > 1).float().mean()\nloss = (w ** 2).sum() + wrong\nloss.mean().backward()": (
        "DG117",
        2,
        {"the term is added to the loss here": 3},
    ),
}
MEANT = [
    PENALTY.format(graph=", create_graph=True", log=""),
    "loss = (w ** 2).sum() + w.detach().norm()\nloss.backward()",
    "with torch.no_grad():\n    best = w.max()\n((w.sum() - best) ** 2).backward()",
    "print((w ** 2).sum() + (w > 1).float().mean())\n(w ** 2).sum().backward()",
    "(slope,) = torch.autograd.grad((w ** 2).sum(), w)\nmoved = w - 0.1 * slope\n(moved ** 2).sum().backward()",
    "(w.sum() + torch.tensor(3.0)).backward()",
]


@pytest.mark.parametrize("program", USELESS)
def test_a_constant_among_the_terms(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, LEAF + program, Graph, Terms)
    code, line, places = USELESS[program]
    assert (spots(run), related(run.faults[0])) == ([(code, line)], places)


@pytest.mark.parametrize("program", MEANT)
def test_constants_that_are_meant(tmp_path: Path, program: str) -> None:
    assert spots(watch(tmp_path, LEAF + program, Graph, Terms)) == []


JUDGED = """
@torch.no_grad()
def judged(x):
    return w * x.tanh()
def direct(x):
    return w * x.tanh()
x = torch.ones(4)
{loss}
loss.backward()
"""
SWITCHED = ["loss = (0.1 * made - judged(made)).mean()", "loss = -(judged(made).sum() / 4 - made.sum())"]
JUDGED_MEANT = [
    "loss = (0.1 * made - direct(made)).mean()",  # it has a gradient
    "loss = ((made - judged(made)) ** 2).mean()",  # a target
    "loss = (made * (made - judged(made))).mean()",  # a factor
    "loss = (made - judged(x)).mean()",  # a baseline that was never trained through
    "with torch.no_grad():\n    best = made.max()\nloss = (made - best).mean()",  # in sight of the loss
    "print(made - judged(made))\nloss = made.sum()",
]


def test_a_term_of_a_function_that_switches_gradients_off(tmp_path: Path) -> None:
    for loss in SWITCHED:
        run = watch(tmp_path, LEAF + JUDGED.format(loss=f"made = w * 2\n{loss}"), Graph, Terms)
        assert (spots(run), related(run.faults[0])) == ([("DG117", 3)], {"the term is added to the loss here": 10})
    for loss in JUDGED_MEANT:
        assert spots(watch(tmp_path, LEAF + JUDGED.format(loss=f"made = w * 2\n{loss}"), Graph, Terms)) == []
