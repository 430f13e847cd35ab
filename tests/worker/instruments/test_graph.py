"""Where the graph was cut, when it was freed, and which parameters it never reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import LEAF, related, said, spots, the_fault, watch

from drygrad.worker.instruments.graph import Graph

CUT = {
    "with torch.no_grad():\n    y = w * 2\nloss = y.sum()\nloss.backward()": (
        "DG103",
        5,
        "`w * 2` on line 6",
    ),
    "y = w * 2\nloss = y.sum().detach()\nloss.backward()": (
        "DG106",
        3,
        "`y.sum().detach()` leaves it",
    ),
    "loss = w.sum().data * 2\nloss.backward()": ("DG106", 2, "`w.sum().data` (detach) leaves it"),
    "loss = (w * 2).argmax().float() + 1\nloss.backward()": ("DG106", 2, "`(w * 2).argmax()` leaves it"),
    "loss = 1 - (w > 1).float().mean()\nloss.backward()": ("DG106", 2, "`w > 1` (gt) leaves it"),
    "loss = torch.tensor([w.sum(), w.mean()]).sum()\nloss.backward()": ("DG105", 2, "copies the values"),
    "loss = torch.tensor(w.sum())\nloss.backward()": ("DG105", 2, "copies the values"),
    "loss = w.sum().item()\nloss.backward()": ("DG106", 2, "it is a Python number; `w.sum().item()`"),
    "loss = torch.tensor([1.0, 2.0]).sum()\nloss.backward()": (
        "DG106",
        3,
        "and nothing it was computed from",
    ),
    "scale = torch.tensor(2.0)\nloss = scale * w.sum().detach()\nloss.backward()": ("DG106", 3, "`w.sum().detach()`"),
    "y = (w ** 3).sum()\n(slope,) = torch.autograd.grad(y, w)\nslope.sum().backward()": (
        "DG116",
        3,
        "`torch.autograd.grad(y, w)` records no graph without create_graph=True",
    ),
    "parts = {'a': w.sum(), 'b': w.mean()}\nloss = torch.tensor(\n    [parts[name] * 2.0 for name in parts]\n).sum()\n"
    "loss.backward()": ("DG105", 3, "copies the values"),
    "parts = {'a': w.sum(), 'b': w.mean()}\nshares = {'a': 1.0, 'b': 0.5}\n"
    "values = torch.tensor([parts[name] for name in parts])\n"
    "loss = (values.new_tensor([shares[name] for name in parts]) * values).sum()\nloss.backward()": (
        "DG105",
        4,
        "copies the values",
    ),
    "loss = torch.zeros(2)\nloss[0] = w.sum().item()\nloss.sum().backward()": ("DG106", 3, "`w.sum().item()` (_local"),
    "w.numpy()": ("DG107", 2, "call `.detach()` before"),
    "torch.optim.SGD([w * 2], lr=1)": ("DG110", 2, "updates leaves only"),
}


@pytest.mark.parametrize("program", CUT)
def test_where_the_graph_was_cut(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, LEAF + program, Graph)
    fault = the_fault(run, *CUT[program])
    assert fault.detail == str(run.result["error"])


def test_one_graph_twice(tmp_path: Path) -> None:
    run = watch(tmp_path, LEAF + "loss = (w * w).sum()\nloss.backward()\nloss.backward()", Graph)
    assert spots(run) == [("DG113", 4)]
    assert related(run.faults[0]) == {"the graph is freed here": 3}


PLAYERS = """\
maker, judge = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
first = torch.optim.SGD({held}, lr=0.1)
made = torch.tanh(maker(torch.ones(3, 2)))
score = judge(made)
loss = score.tanh().mean()
loss.backward()
{step}
judge(made).mean().backward()
"""


def test_a_loss_that_goes_back_into_what_its_optimizer_does_not_hold(tmp_path: Path) -> None:
    run = watch(tmp_path, LEAF + PLAYERS.format(held="judge.parameters()", step="first.step()"), Graph)
    assert spots(run) == [("DG113", 5)]
    assert related(run.faults[0]) == {"backward() fails here": 9, "the graph is freed here": 7}


JUDGE = """\
class Judge(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, seen):
        return self.layer(seen)
"""


def test_what_a_function_is_given_is_to_be_detached_where_it_is_given(tmp_path: Path) -> None:
    players = PLAYERS.replace("torch.nn.Linear(2, 1)", "Judge()").format(held="judge.parameters()", step="first.step()")
    run = watch(tmp_path, LEAF + JUDGE + players, Graph)
    assert spots(run) == [("DG113", 11)]
    at = run.faults[0].at
    assert at is not None
    assert run.lines.text(at) == "made"


@pytest.mark.parametrize("step", ["first.step()", ""])
def test_two_losses_of_one_optimizer(tmp_path: Path, step: str) -> None:
    held = "[*judge.parameters(), *maker.parameters()]"
    run = watch(tmp_path, LEAF + PLAYERS.format(held=held, step=step), Graph)
    assert all(line != 5 for _, line in spots(run))


@pytest.mark.parametrize("network", ["torch.tanh(h * w + w)", "F.relu(h + w.exp())"])
def test_a_state_carried_from_pass_to_pass(tmp_path: Path, network: str) -> None:
    program = f"h = torch.zeros(4)\nfor _ in range(3):\n    h = {network}\n    loss = h.sum()\n    loss.backward()"
    run = watch(tmp_path, LEAF + program, Graph)
    assert spots(run) == [("DG108", 4)]
    assert set(related(run.faults[0]).values()) == {6}


TRAINING = """
model = nn.ModuleDict(dict(a=nn.Linear(4, 2), b=nn.Linear(4, 2)))
{freeze}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(2):
    optimizer.zero_grad()
    model["a"](torch.ones(4)).sum().backward()
    {more}
    optimizer.step()
"""


def test_parameters_that_no_loss_depends_on(tmp_path: Path) -> None:
    run = watch(tmp_path, TRAINING.format(freeze="", more=""), Graph)
    assert spots(run) == [("DG112", 9)]
    assert "2 of the optimizer's 4 parameters never got a gradient" in said(run)[0][1]
    assert "`model.b.weight`, `model.b.bias`" in said(run)[0][1]
    assert run.faults[0].severity == "info"


LEFT = """
import torch

{decorator}
def embed(x):
    return net(x)

def penalised(x):
    y = net(x)
    y = x + (y - x).detach()
    return y, ((y - x.detach()) ** 2).mean()

def matrix(scale):
    return torch.tensor([[1.0, 0.0], [0.0, -scale]])

net, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
scale = torch.tensor(2.0, requires_grad=True)
optimizer = torch.optim.SGD([*net.parameters(), *other.parameters(), scale], lr=0.1)
for i in range(2):
    optimizer.zero_grad()
    {loss}.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("decorator", "loss", "line"),
    [
        ("@torch.no_grad()", "(embed(torch.ones(3, 2)) * other(torch.ones(2)) * scale).sum()", 4),
        ("", "(penalised(other(torch.ones(2)))[0].sum() * scale)", 10),
        ("", "(embed(other(torch.ones(2))) @ matrix(scale)).sum()", 14),
    ],
)
def test_parameters_whose_graph_ends(tmp_path: Path, decorator: str, loss: str, line: int) -> None:
    run = watch(tmp_path, LEFT.format(decorator=decorator, loss=loss), Graph)
    assert spots(run) == [("DG112", line)]
    assert run.faults[0].related[0][0] == "this step finds no gradient"


@pytest.mark.parametrize(
    "given",
    [
        "second.weight[first(x).max(1)[1]]",
        "second.weight * first(x).topk(1)[1]",
        "second(first(x).data.requires_grad_())",
    ],
)
def test_parameters_behind_indices_and_new_leaves(tmp_path: Path, given: str) -> None:
    program = f"""
first, second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
for _ in range(3):
    x = torch.ones(4, 4)
    loss = ({given}).sum()
    loss.backward()
    optimizer.step()
"""
    fault = the_fault(watch(tmp_path, program, Graph), "DG112", 6, "the graph is cut here: `first.weight`")
    assert fault.severity == "info"


def test_a_switch_in_a_caller_and_a_spectrum(tmp_path: Path) -> None:
    program = """
first, second = nn.Linear(4, 4), nn.Linear(4, 4)
def encode(x):
    torch.set_grad_enabled(False)
    made = first(x)
    torch.set_grad_enabled(True)
    return made
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
for _ in range(3):
    made = torch.fft.rfft(second(encode(torch.ones(4, 4))))
    (made * made.abs().argmax()).abs().sum().backward()
    optimizer.step()
"""
    fault = the_fault(watch(tmp_path, program, Graph), "DG112", 4, "gradients are disabled here: `first.weight`")
    assert fault.severity == "info"


def test_a_result_that_is_only_logged_is_no_end_of_its_graph(tmp_path: Path) -> None:
    loss = "(print(net(torch.ones(2)).detach().sum().item()), other(torch.ones(2)).sum() * scale)[1]"
    assert spots(watch(tmp_path, LEFT.format(decorator="", loss=loss), Graph)) == [("DG112", 22)]


def test_parameters_that_are_frozen_or_have_their_turn_later(tmp_path: Path) -> None:
    frozen = TRAINING.format(freeze="model['b'].requires_grad_(False)", more="")
    later = TRAINING.format(freeze="", more="if i: model['b'](torch.ones(4)).sum().backward()")
    assert said(watch(tmp_path, frozen, Graph)) == []
    assert said(watch(tmp_path, later, Graph)) == []


def test_a_state_that_is_detached_and_an_evaluation_pass_unseen(tmp_path: Path) -> None:
    program = """
    model, head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    state = None
    for _ in range(3):
        output, state = model(torch.randn(2, 5, 3), state)
        state = tuple(part.detach() for part in state)
        loss = head(output).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            print(head(model(torch.randn(2, 5, 3))[0]).argmax().item(), loss.item())
    """
    assert said(watch(tmp_path, program, Graph)) == []


def test_a_state_is_carried_where_its_name_is_bound(tmp_path: Path) -> None:
    program = """\
class Trainer:
    def __init__(self):
        self.state = torch.zeros(4)
    def step(self):
        new = torch.tanh(self.state * w)
        loss = new.sum()
        loss.backward()
        w.grad = None
        self.state = new
trainer = Trainer()
trainer.step(), trainer.step()
"""
    run = watch(tmp_path, LEAF + program, Graph)
    assert spots(run) == [("DG108", 10)]
    assert related(run.faults[0]) == {
        "tanh, from an earlier iteration": 6,
        "backward() fails here": 8,
        "the graph is freed here": 8,
    }
    assert "`self.state`, which is carried over from there" in said(run)[0][1]


STATEFUL = """
cell, head = nn.GRU(2, 2), nn.Linear(2, 1)
def advance(x, state):
    out, state = cell(x, state)
    return head(out), state
state = torch.zeros(1, 3, 2)
total = 0.0
for _ in range(3):
    scores, state = advance(torch.ones(4, 3, 2), state)
    loss = scores.mean()
    loss.backward()
    total = total + loss.item()
"""


def test_a_state_that_a_function_returns_is_told_where_the_loop_binds_it(tmp_path: Path) -> None:
    run = watch(tmp_path, STATEFUL, Graph)
    assert spots(run) == [("DG108", 9)]
    assert "`state`, which is carried over from there" in run.faults[0].message


AVERAGES = """
class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.sums, self.codes, self.seen = torch.ones(4), torch.ones(4), None
    def update(self, h):
        self.seen = h * 1
        self.sums = 0.9 * self.sums + {added}
        total = self.sums.sum()
        self.codes = (
            self.sums / total
        )
    def forward(self, h):
        loss = (h * self.codes).exp().sum()
        self.update(h)
        return loss
bank = Bank()
for _ in range(3):
    bank(torch.tanh(w)).backward()
"""


def test_a_graph_is_kept_where_the_first_attribute_takes_it(tmp_path: Path) -> None:
    run = watch(tmp_path, LEAF + AVERAGES.format(added="0.1 * h"), Graph)
    assert spots(run) == [("DG108", 9)]
    assert "`self.sums`, which is carried over from there" in run.faults[0].message
    assert spots(watch(tmp_path, LEAF + AVERAGES.format(added="0.1 * h.detach()"), Graph)) == []
