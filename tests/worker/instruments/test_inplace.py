"""In-place writes: the line that saved, the line that overwrote, and the writes that backward has acquitted."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import related, spots, watch

from drygrad.worker.instruments.inplace import Inplace

LEAF = "w = torch.rand(3, requires_grad=True)\n"

OVERWRITTEN = [
    (
        "y = w.sigmoid()\ny.clamp_(min=1e-6)\ny.log().sum().backward()",
        3,
        2,
        "`y.clamp_(min=1e-6)` overwrites the output",
    ),
    ("y = w + 1\nz = y * y\ny[0] = 1\nz.sum().backward()", 4, 3, "the write to `y[0]` overwrites the input of mul"),
    ("y = w.exp()\ny += 1\ny.sum().backward()", 3, 2, "`y += 1` overwrites the output of exp"),
    ("y = w.exp()\ny[1:].mul_(2)\ny.sum().backward()", 3, 2, "`y[1:].mul_(2)` overwrites the output of exp"),
    ("y = w.tanh()\ny = nn.ReLU(inplace=True)(y)\ny.sum().backward()", 3, 2, "(relu_) overwrites the output of tanh"),
    ("y = w.exp()\nwith torch.no_grad():\n    y.zero_()\ny.sum().backward()", 4, 2, "`y.zero_()` overwrites"),
    (
        "y = w.exp()\nz = y * 2\ny += 1\nz[torch.tensor([0, 2])].sum().backward()",
        4,
        2,
        "`y += 1` overwrites the output",
    ),
]
"""The last one raises when backward has freed a list of indices."""


@pytest.mark.parametrize(("program", "culprit", "saver", "sentence"), OVERWRITTEN)
def test_culprit_and_saver(tmp_path: Path, program: str, culprit: int, saver: int, sentence: str) -> None:
    run = watch(tmp_path, LEAF + program, Inplace)
    (fault,) = run.faults
    assert spots(run) == [("DG101", culprit)]
    assert sentence in fault.message
    assert saver in related(fault).values()
    assert related(fault)["backward() fails here"] == LEAF.count("\n") + program.count("\n") + 1
    assert "modified by an inplace operation" in (fault.detail or "")
    assert run.failures == []


def test_an_optimizer_between_two_backwards(tmp_path: Path) -> None:
    run = watch(
        tmp_path,
        """\
model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(2, 3)).sum()
loss.backward(retain_graph=True)
optimizer.step()
loss.backward()
""",
        Inplace,
    )
    assert spots(run) == [("DG101", 5)]
    assert "`optimizer.step()` (SGD) overwrites" in run.faults[0].message


def test_what_a_custom_function_saved(tmp_path: Path) -> None:
    run = watch(
        tmp_path,
        """\
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        result = a * 2
        ctx.save_for_backward(a, result)
        return result
    @staticmethod
    def backward(ctx, g):
        a, result = ctx.saved_tensors
        return g * 2
y = Double.apply(torch.rand(3, requires_grad=True) * 1)
y.add_(1)
y.sum().backward()
""",
        Inplace,
    )
    assert spots(run) == [("DG101", 12)]
    assert "saved tensor of double" in run.faults[0].message


def test_a_custom_function_that_backward_has_passed(tmp_path: Path) -> None:
    program = (
        LEAF
        + """\
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        return 3 * ctx.saved_tensors[0] ** 2 * gradient

y = w.exp()
z = y * 2
y += 1
Cube.apply(z).sum().backward()
"""
    )
    assert spots(watch(tmp_path, program, Inplace)) == [("DG101", 14)]


def test_the_last_of_several_writes_to_one_memory(tmp_path: Path) -> None:
    program = (
        LEAF + "for i in range(3):\n    y = w * 2\n    y.add_(1)\n    z = y * y\n    y.sub_(1)\nz.sum().backward()"
    )
    assert spots(watch(tmp_path, program, Inplace)) == [("DG101", 6)]


@pytest.mark.parametrize("write", ["w -= 1", "w.fill_(1)", "w[0] = 1", "w.view(-1)[:1].add_(1)"])
def test_a_leaf_that_requires_grad(tmp_path: Path, write: str) -> None:
    run = watch(tmp_path, LEAF + write, Inplace)
    assert spots(run) == [("DG102", 2)]
    assert "leaf tensor that requires grad" in run.faults[0].message


def test_harmless_writes_are_acquitted(tmp_path: Path) -> None:
    run = watch(
        tmp_path,
        LEAF
        + """\
buffer = torch.zeros(3)
y = w * 2
y.clamp_(min=0)
y[0] = 1
y += 1
unused = w * 3
unused.add_(1)
buffer += 1
y.sum().backward()
""",
        Inplace,
    )
    assert run.faults == []
    assert run.result["inplace"] == [
        7,
        8,
        9,
    ]  # behind three lines of imports; not `unused`


def test_writes_under_transforms_do_not_disturb(tmp_path: Path) -> None:
    program = "f = lambda x: x.sin().mul_(2).sum()\nprint(torch.func.vmap(torch.func.grad(f))(torch.ones(2, 3)))"
    assert watch(tmp_path, program, Inplace).faults == []
