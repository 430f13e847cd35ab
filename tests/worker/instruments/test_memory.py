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
    "losses.append(loss)": ("DG501", "memory grows by 4 bytes in every step: `losses` keeps the graph of every step"),
    "total += loss": ("DG502", "`total` links the graphs of all steps"),
    "total = total + loss": ("DG502", "`total` links the graphs of all steps"),
    "outputs.append((x, number))": (
        "DG508",
        "memory grows by 1.0 MiB in every step: `outputs` keeps a tensor of every step",
    ),
    "nn.Hidden = (x, getattr(nn, 'Hidden', None))": (
        "DG508",
        "memory grows by 1.0 MiB in every step, 1.0 MiB of it allocated here",
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
            "the peak of 16.0 MiB exceeds the GPU's 12.0 MiB: this line holds the most, 8.0 MiB of inputs",
        )
    ]
    assert run.faults[0].at is not None
    assert run.faults[0].at.line == 6
    assert said(watch(tmp_path, text, Memory, gpu_memory=17 << 20)) == []
    assert said(watch(tmp_path, text, Memory, device="sim", gpu_memory=12 << 20)) == []  # all of it is on the host


def test_an_allocation_that_asks_for_too_much(tmp_path: Path) -> None:
    run = watch(tmp_path, "x = torch.zeros(1 << 20)\nx.expand(1 << 24, 1 << 20).clone()", Memory)
    assert said(run) == [("DG507", "out of memory: 65536.0 GiB requested with 4.0 MiB live")]
    assert [(message, place.line) for message, place in run.faults[0].related] == [("4.0 MiB of inputs", 4)]
    assert run.faults[0].facts["ranks"] == [2]


def test_an_allocation_that_is_one_too_many(tmp_path: Path) -> None:
    text = "x = torch.zeros(1 << 20)\nraise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 MiB.')"
    run = watch(tmp_path, text, Memory)
    assert said(run) == [("DG507", "out of memory with 4.0 MiB live: this line holds the most, 4.0 MiB of inputs")]
    assert run.faults[0].at is not None
    assert run.faults[0].at.line == 4
    assert [(message, place.line) for message, place in run.faults[0].related] == [("the allocation that failed", 5)]


OWNERS = """
class Meter:
    def __init__(self):
        self.total, self.kept, self.smooth = 0.0, [], {"loss": 0.0}
        self.computed, self.entries = [], []

    def update(self, value, n):
        self.total += value * n

    def keep(self, value):
        self.kept.append({"value": value})

    def all(self, n, **values):
        for name, value in values.items():
            self.smooth[name] = self.smooth.get(name, 0.0) + value * n

    def compute(self, value, number):
        doubled = 2 * value
        self.computed.append((doubled, number))

    def entry(self, doubled, number):
        return {"doubled": doubled, "number": number}

    def record(self, value, number):
        doubled = 2 * value
        self.entries.append(self.entry(doubled, number))

    def average(self, value):
        self.smooth["loss"] = 0.9 * self.smooth["loss"] + 0.1 * value.mean()

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
meter = Meter()
for number in range(5):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    AFTER
"""


@pytest.mark.parametrize(
    ("after", "code", "line"),
    [
        ("meter.update(loss, 8)", "DG502", "meter.update(loss, 8)"),
        ("meter.keep(loss)", "DG501", "meter.keep(loss)"),
        ("meter.average(loss)", "DG502", "meter.average(loss)"),
        ("meter.all(8, mean=loss, half=loss / 2)", "DG502", "+ value * n"),
        ("meter.all(8, mean=loss.detach())", None, ""),
        ("meter.compute(loss.detach(), number)", None, ""),
        ("meter.update(loss.detach(), 8)", None, ""),
        ("meter.average(loss.detach())", None, ""),
    ],
)
def test_what_an_object_holds_is_told_where_it_was_handed_over_or_made(
    tmp_path: Path, after: str, code: str | None, line: str
) -> None:
    text = OWNERS.replace("AFTER", after)
    run = watch(tmp_path, text, Memory)
    assert [fault.code for fault in run.faults] == ([code] if code else [])
    for fault in run.faults:
        assert fault.at is not None
        assert line in text.splitlines()[fault.at.line - 4]


@pytest.mark.parametrize(("method", "line"), [("compute", "self.computed.append("), ("record", "return {")])
def test_what_a_method_computes_and_keeps_is_told_where_it_keeps_it(tmp_path: Path, method: str, line: str) -> None:
    text = OWNERS.replace("    AFTER\n", "") + f"    meter.{method}(loss, number)\n"
    (fault,) = watch(tmp_path, text, Memory).faults
    assert fault.code == "DG501"
    assert fault.at is not None
    assert line in text.splitlines()[fault.at.line - 4]


def test_weights_that_are_averaged_with_their_graph_are_a_chain(tmp_path: Path) -> None:
    text = """
class Average:
    def __init__(self, model):
        self.shadow = {name: p.clone() for name, p in model.named_parameters()}

    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name] = 0.9 * self.shadow[name] + 0.1 * p

model = nn.Linear(4, 2)
average = Average(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for number in range(5):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(model)
"""
    run = watch(tmp_path, text, Memory)
    assert [(fault.code, fault.at.line - 3 if fault.at else None) for fault in run.faults] == [("DG502", 8)]
    assert (
        said(watch(tmp_path, text.replace("0.1 * p", "0.1 * p.detach()").replace("p.clone()", "p.detach()"), Memory))
        == []
    )


def test_a_state_that_is_handed_from_step_to_step_is_a_hidden_state(tmp_path: Path) -> None:
    text = """
rnn = nn.GRU(3, 4)
optimizer = torch.optim.SGD(rnn.parameters(), 0.1)
h = None
for number in range(5):
    y, h = rnn(torch.randn(2, 1, 3), h)
    optimizer.zero_grad()
    y.mean().backward(retain_graph=True)
    nn.utils.clip_grad_norm_(rnn.parameters(), 1.0)
    optimizer.zero_grad()
    optimizer.step()
"""
    run = watch(tmp_path, text, Memory)
    assert [(fault.code, fault.at.line - 3 if fault.at else None) for fault in run.faults] == [("DG108", 6)]
    cut = text.replace("    optimizer.step()", "    optimizer.step()\n    h = h.detach()")
    assert said(watch(tmp_path, cut, Memory)) == []


def test_two_optimizers_that_share_a_loss_make_no_chain(tmp_path: Path) -> None:
    text = """
g, d = nn.Linear(2, 3), nn.Linear(3, 1)
steps_g, steps_d = (torch.optim.SGD(m.parameters(), 0.1) for m in (g, d))
for number in range(5):
    fake = g(torch.randn(4, 2))
    loss_d = d(fake.detach()).mean() - d(torch.randn(4, 3)).mean()
    steps_d.zero_grad()
    loss_d.backward()
    steps_d.step()
    loss_g = -d(fake).mean()
    total = loss_g + loss_d.detach()
    steps_g.zero_grad()
    total.backward()
    steps_g.step()
"""
    assert said(watch(tmp_path, text, Memory)) == []


def test_a_module_that_has_no_attributes_yet_is_no_obstacle(tmp_path: Path) -> None:
    text = """
class Block(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 3), nn.ReLU())
optimizer = torch.optim.SGD(Block().parameters(), 0.1)
for number in range(5):
    block = Block()
    optimizer.step()
"""
    assert watch(tmp_path, text, Memory).notes == []


@pytest.mark.parametrize("call", ["note(losses, 'loss', loss)", "note(value=loss, name='loss', history=losses)"])
def test_what_a_function_stores_in_a_list_is_told_at_its_call(tmp_path: Path, call: str) -> None:
    helper = "def note(history, name, value):\n    history.setdefault(name, []).append(value)\n"
    body = STEP.format(steps=4, after=call)
    body = body.replace("losses, outputs, total = [], [], 0.0", "losses = {}")
    run = watch(tmp_path, f"{helper}\ndef train():\n{indent(body, '    ')}\ntrain()\n", Memory)
    (fault,) = run.faults
    assert fault.code == "DG501"
    assert fault.at is not None
    assert run.lines.text(fault.at) == call
