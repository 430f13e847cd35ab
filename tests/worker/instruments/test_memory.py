"""Memory by line and phase, and what keeps tensors alive from step to step."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import torch
from instrument_harness import said, watch

from drygrad.worker.instruments.memory import Memory

STEP = """
model = nn.Sequential(nn.Linear(512, 8), nn.ReLU(), nn.Linear(8, 10))
optimizer = torch.optim.Adam(model.parameters())
losses, outputs, total = [], [], 0.0
for number in range({steps}):
    x, y = torch.randn(512, 512), torch.randint(0, 10, (512,))
    out = model(x)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
"""

GROWING = {
    "losses.append(loss)": ("DG501", "4 bytes more are live after each step: `losses` keeps the graph of each step"),
    "total += loss": ("DG502", "`total` links the graphs of all steps"),
    "total = total + loss": ("DG502", "`total` links the graphs of all steps"),
    "outputs.append((x, number))": (
        "DG508",
        "1.0 MiB more are live after each step: `outputs` keeps a tensor of each step",
    ),
    "nn.Hidden = (x, getattr(nn, 'Hidden', None))": (
        "DG508",
        "1.0 MiB more are live after each step, 1.0 MiB of them made here",
    ),
}

STEADY = [
    "losses.append(loss.item())",
    "losses.append(loss.detach())",
    "total += loss.item()",
    "total += loss.detach()",
    "outputs.append(out.detach())",
    "outputs = [x, *outputs][:2]",
    "cache = cache if number else torch.zeros(1 << 20)",
    "with torch.no_grad(): model(x)",
    "loss = out.sum() + x.sum() + y.sum()",
]


def program(after: str, steps: int = 4) -> str:
    return STEP.format(after=after, steps=steps)


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize("after", GROWING)
def test_growth_is_traced_to_what_holds_it(tmp_path: Path, after: str, in_function: bool) -> None:
    text = program(after)
    if in_function:
        text = f"def train():{indent(text, '    ')}\ntrain()"
    run = watch(tmp_path, text, Memory)
    if "Hidden" in after:
        del nn_module().Hidden
    assert said(run) == [GROWING[after]]
    place = run.faults[0].at
    assert place is not None
    culprit = after if "`" in GROWING[after][1] else "torch.randn(512, 512)"
    assert culprit in text.splitlines()[place.line - 4]


def nn_module() -> Any:
    return torch.nn


@pytest.mark.parametrize("after", STEADY)
def test_what_does_not_grow_is_left_alone(tmp_path: Path, after: str) -> None:
    run = watch(tmp_path, program(after), Memory)
    assert "error" not in run.result
    assert said(run) == []


def test_a_list_and_a_total_are_two_faults(tmp_path: Path) -> None:
    run = watch(tmp_path, program("losses.append(loss)\n    total += loss"), Memory)
    assert sorted(fault.code for fault in run.faults) == ["DG501", "DG502"]


def test_each_optimizer_has_steps_of_its_own(tmp_path: Path) -> None:
    two = program("other.step()").replace("losses,", "other = torch.optim.SGD(model.parameters())\nlosses,")
    assert said(watch(tmp_path, two, Memory)) == []
    kept = two.replace("other.step()", "other.step(); outputs.append(x)")
    assert {fault.code for fault in watch(tmp_path, kept, Memory).faults} == {"DG508"}


def test_two_steps_are_too_few_to_tell(tmp_path: Path) -> None:
    assert said(watch(tmp_path, program("outputs.append(x)", steps=2), Memory)) == []


def test_the_peak_and_the_lines_that_hold_it(tmp_path: Path) -> None:
    text = """
    layer = nn.Linear(1024, 1024, bias=False)
    x = torch.randn(2048, 1024)
    hidden = layer(x).exp()
    wide = torch.cat([hidden, hidden])
    loss = wide.sum()
    del wide
    loss.backward()
    """
    run = watch(tmp_path, text, Memory)
    memory = run.result["memory"]
    by_line = {row["line"]: (row["bytes"] >> 20, row["what"]) for row in memory["by_line"]}
    assert by_line[5] == (4, "parameters")
    assert by_line[6] == (8, "inputs")
    assert by_line[7] == (16, "activations")  # and as much of gradients, in the backward pass
    assert memory["peak_bytes"] >> 20 >= 36
    assert memory["by_phase"]["backward"] > 0
    assert memory["by_phase"]["optimizer"] == 0
    assert memory["steps"] == []


def test_nothing_is_kept_alive(tmp_path: Path) -> None:
    text = """
    import weakref
    x = torch.zeros(3)
    y = x * 2
    ends = [weakref.ref(x), weakref.ref(y)]
    del x, y
    torch.zeros(1)
    assert [end() for end in ends] == [None, None]
    """
    assert "error" not in watch(tmp_path, text, Memory).result


def test_a_gpu_that_is_too_small(tmp_path: Path) -> None:
    text = "x = torch.zeros(1 << 20)\ny = x.exp()\nz = torch.zeros(1 << 21)"
    run = watch(tmp_path, text, Memory, gpu_memory=12 << 20)
    assert said(run) == [
        (
            "DG507",
            "the peak of 16.0 MiB is above the 12.0 MiB of the GPU: this line holds most, 8.0 MiB of inputs",
        )
    ]
    assert run.faults[0].at is not None
    assert run.faults[0].at.line == 6
    assert said(watch(tmp_path, text, Memory, gpu_memory=17 << 20)) == []
    assert said(watch(tmp_path, text, Memory, device="sim", gpu_memory=12 << 20)) == []  # all of it is on the host


def test_an_allocation_that_asks_for_too_much(tmp_path: Path) -> None:
    run = watch(tmp_path, "x = torch.zeros(1 << 20)\nx.expand(1 << 24, 1 << 20).clone()", Memory)
    assert said(run) == [("DG507", "out of memory: 65536.0 GiB more were asked for with 4.0 MiB live")]
    assert [(message, place.line) for message, place in run.faults[0].related] == [("4.0 MiB of inputs", 4)]


def test_an_allocation_that_is_one_too_many(tmp_path: Path) -> None:
    text = "x = torch.zeros(1 << 20)\nraise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 MiB.')"
    run = watch(tmp_path, text, Memory)
    assert said(run) == [("DG507", "out of memory with 4.0 MiB live: this line holds most, 4.0 MiB of inputs")]
    assert run.faults[0].at is not None
    assert run.faults[0].at.line == 4
    assert [(message, place.line) for message, place in run.faults[0].related] == [("the allocation that failed", 5)]
