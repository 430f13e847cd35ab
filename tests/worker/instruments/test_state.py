"""What a call leaves behind for the next one counts like its result: NaN, a graph, a tensor of another device."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
from bench_harness import called
from instrument_harness import spots

from drygrad.worker.instruments.births import Births
from drygrad.worker.instruments.carried import Carried
from drygrad.worker.instruments.graph import Graph
from drygrad.worker.instruments.memory import Memory
from drygrad.worker.instruments.optimizer_state import OptimizerState

KINDS = (Births, Carried, Graph, Memory, OptimizerState)
MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.weight = nn.Parameter(torch.zeros(3))
        self.total, self.ratio, self.loss = 0.0, torch.zeros(()), None

    def f(self, x):
        y = self.layer(x)
"""
FIRST = MODULE.count("\n") + 1
"""The line that the body of the method begins with."""

PAIRS = {
    "NaN in an attribute": (
        "self.ratio = (y > 9).sum() / (x > 9).sum()",
        "self.ratio = (y > 9).sum() / (x > 9).sum().clamp(min=1)",
        ("DG402", "info", "`self.ratio` is NaN from then on"),
    ),
    "NaN in a buffer": (
        "self.mean.mul_(0.9).add_(x[:1].var(0))",
        "self.mean.mul_(0.9).add_(x.var(0))",
        ("DG410", "warning", "`self.mean` is NaN from then on"),
    ),
    "NaN through data": (
        "self.weight.data /= self.weight.data.norm()",
        "self.weight.data /= self.weight.data.norm() + 1e-8",
        ("DG402", "warning", "`self.weight` is NaN from then on"),
    ),
    "a queue with a graph": (
        "self.mean = torch.cat([y[0], self.mean])[:3]",
        "self.mean = torch.cat([y[0].detach(), self.mean])[:3]",
        ("DG502", "warning", "`self.mean` carries the graph of this call into the next"),
    ),
    "an average in place with a graph": (
        "self.mean.mul_(0.9).add_(y.mean(0))",
        "self.mean.mul_(0.9).add_(y.detach().mean(0))",
        ("DG502", "warning", "`self.mean` carries the graph"),
    ),
    "a total with a graph": (
        "self.total = self.total + y.sum()",
        "self.total = self.total + y.sum().item()",
        ("DG502", "info", "`self.total` carries the graph"),
    ),
}
QUIET = {
    "a value of this call alone": "self.loss = y.square().mean()",
    "what the call itself begins anew": "self.mean = y.mean(0)\nself.mean = self.mean + 1",
    "a state that the results go through": "y = self.mean = torch.tanh(y.mean(0))",
    "an infinity that is written": "self.ratio = torch.tensor(float('inf'))",
}


def _body(line: str) -> str:
    return MODULE + indent(f"{line}\nreturn y\n", " " * 8)


@pytest.mark.parametrize("case", PAIRS)
def test_what_is_left_in_a_module_counts_like_a_result(case: str, tmp_path: Path) -> None:
    broken, _, (code, severity, words) = PAIRS[case]
    run = called(tmp_path, _body(broken), "self=Net(), x=torch.randn(4, 3)", *KINDS)
    assert spots(run) == [(code, FIRST)]
    assert run.faults[0].severity == severity
    assert words in run.faults[0].message


@pytest.mark.parametrize("body", [*(right for _, right, _ in PAIRS.values()), *QUIET.values()])
def test_what_is_left_finite_and_detached_is_not_told(body: str, tmp_path: Path) -> None:
    assert spots(called(tmp_path, _body(body), "self=Net(), x=torch.randn(4, 3)", *KINDS)) == []


def test_a_state_that_results_are_computed_from_is_an_info_at_most(tmp_path: Path) -> None:
    body = "self.mean = 0.9 * self.mean + y.mean(0)\ny = y - self.mean"
    run = called(tmp_path, _body(body), "self=Net(), x=torch.randn(4, 3)", *KINDS)
    assert [(fault.code, fault.severity) for fault in run.faults] == [("DG502", "info")]


def test_nan_in_a_list_of_the_callers(tmp_path: Path) -> None:
    program = """
    def f(x, history):
        history.append(x[x > 9].mean())
        return x.mean()
    """
    run = called(tmp_path, program, "x=torch.randn(4), history=[torch.ones(())]", *KINDS)
    assert spots(run) == [("DG410", 3)]
    assert "`history[1]` is NaN from then on" in run.faults[0].message


def _trained(tmp_path: Path, scale: str) -> list[tuple[str, int | None]]:
    program = """
    def f(net, x):
        optimizer = torch.optim.Adam(net.parameters())
        net(x).square().mean().backward()
        optimizer.step()
    """
    return spots(called(tmp_path, program, f"net=nn.Linear(3, 1), x=torch.randn(4, 3) * {scale}", *KINDS))


def test_an_optimizer_whose_squares_overflow(tmp_path: Path) -> None:
    assert _trained(tmp_path, "1e13") == [("DG410", 5)]
    assert _trained(tmp_path, "1") == []


LOSSES: dict[str, tuple[str, list[tuple[str, int | None]]]] = {
    "detached on the way": ("s = scores.detach()\nreturn (s - 1).square().mean()", [("DG106", 2)]),
    "its data": ("return (scores.data - 1).square().mean()", [("DG106", 2)]),
    "detached at last, for a log": ("loss = scores.square().mean()\nreturn loss.detach()", []),
    "as it should be": ("return (scores - scores.detach().mean()).square().mean()", []),
    "without gradients on purpose": ("with torch.no_grad():\n    return scores.square().mean()", []),
}


@pytest.mark.parametrize("case", LOSSES)
def test_a_loss_without_a_graph_though_an_input_asks_for_a_gradient(case: str, tmp_path: Path) -> None:
    body, found = LOSSES[case]
    program = f"def f(scores):\n{indent(body, '    ')}\n"
    given = "scores=torch.randn(4, requires_grad=True)"
    assert spots(called(tmp_path, program, given, *KINDS, target="hinge_loss")) == found
    assert spots(called(tmp_path, program, given, *KINDS, target="accuracy")) == []
    assert spots(called(tmp_path, program, "scores=torch.randn(4)", *KINDS, target="hinge_loss")) == []
