"""Instruments hear of every operation, with the user's line, forward and backward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from instrument_harness import spots, watch

from drygrad.worker.instruments.inplace import Inplace
from drygrad.worker.lines import Lines
from drygrad.worker.run import Instrument, Place, Run, Stop
from drygrad.worker.watch import Op, watching

PROGRAM = """\
import torch
def step(x, w):
    hidden = x @ w
    loss = hidden.exp().sum()
    loss.backward()
"""


class Recorder(Instrument):
    name = "recorder"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.heard: list[tuple[str, str, int | None]] = []
        self.backwards: list[int] = []
        self.steps: list[str] = []

    def after_op(self, op: Op, result: Any) -> None:
        place = self.run.lines.place(op.instruction)
        self.heard.append((op.phase, op.name, place and place.line))

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        assert place is not None
        self.backwards.append(place.line)

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        self.steps.append(type(optimizer).__name__)


def record(tmp_path: Path, program: str, name: str, *arguments: Any) -> Recorder:
    path = str(tmp_path / "program.py")
    run = Run({"device": "cpu"}, Lines(path))
    run.lines.give_source(path, program)
    recorder = Recorder(run)
    namespace: dict[str, Any] = {}
    exec(compile(program, path, "exec"), namespace)
    with watching(run, [recorder]):
        namespace[name](*arguments)
    return recorder


def test_lines_forward_and_backward(tmp_path: Path) -> None:
    weights = torch.ones(3, 2, requires_grad=True)
    recorder = record(tmp_path, PROGRAM, "step", torch.ones(4, 3), weights)
    assert ("forward", "aten::mm", 3) in recorder.heard
    assert ("forward", "aten::exp", 4) in recorder.heard
    assert ("backward", "aten::mul", 4) in recorder.heard
    assert ("backward", "aten::mm", 3) in recorder.heard
    assert recorder.backwards == [5]
    assert weights.grad is not None


def test_an_optimizer_step_is_a_phase_of_its_own(tmp_path: Path) -> None:
    program = "def step(optimizer):\n    optimizer.step()\n"
    weights = torch.ones(3, requires_grad=True)
    weights.grad = torch.ones(3)
    recorder = record(tmp_path, program, "step", torch.optim.SGD([weights], lr=1.0, foreach=False))
    assert recorder.steps == ["SGD"]
    assert {phase for phase, name, _ in recorder.heard if name.startswith("aten::")} == {"optimizer"}
    assert {line for _, _, line in recorder.heard} == {2}


def test_what_a_checkpoint_computes_again_has_its_line(tmp_path: Path) -> None:
    program = """\
from torch.utils.checkpoint import checkpoint
def step(x):
    def block(x):
        return x.sin(
        ).exp()
    checkpoint(block, x, use_reentrant=False).sum().backward()
"""
    recorder = record(tmp_path, program, "step", torch.ones(3, requires_grad=True))
    assert ("recompute", "aten::sin", 4) in recorder.heard
    assert ("backward", "aten::cos", 4) in recorder.heard


def test_columns_count_characters(tmp_path: Path) -> None:
    program = "def step(x):\n    é = 'é'; y = x.exp()\n    raise ValueError(é)\n"
    path = str(tmp_path / "program.py")
    lines = Lines(path)
    lines.give_source(path, program)
    namespace: dict[str, Any] = {}
    exec(compile(program, path, "exec"), namespace)
    with pytest.raises(ValueError, match="é") as raised:
        namespace["step"](torch.ones(1))
    place = lines.place_of_error(raised.value)
    assert place is not None
    assert place.line == 3
    assert place.column in (4, None)


def test_no_hook_outlives_the_block(tmp_path: Path) -> None:
    recorder = record(tmp_path, PROGRAM, "step", torch.ones(4, 3), torch.ones(3, 2, requires_grad=True))
    before = len(recorder.heard)
    weights = torch.ones(3, requires_grad=True)
    torch.autograd.backward((weights * 2).sum())
    assert len(recorder.heard) == before
    assert len(recorder.backwards) == 1


class Faulty(Instrument):
    name = "faulty"
    hook = ""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.calls = 0

    def fail(self, *facts: Any) -> None:
        self.calls += 1
        raise KeyError(self.hook)


HOOKS = ["before_op", "after_op", "backward_begins", "backward_ends", "step_begins", "step_ends"]


@pytest.mark.parametrize("hook", HOOKS)
def test_an_instrument_that_fails_is_switched_off(tmp_path: Path, hook: str) -> None:
    kind = type("Kind", (Faulty,), {"hook": hook, hook: Faulty.fail})
    program = """\
import torch
x = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([x], lr=0.1)
for _ in range(2):
    (x * x).sum().backward()
    optimizer.step()
"""
    path = str(tmp_path / "program.py")
    run = Run({"device": "cpu"}, Lines(path))
    faulty, recorder = kind(run), Recorder(run)
    with watching(run, [faulty, recorder]):
        exec(compile(program, path, "exec"), {})
    assert faulty.calls == 1
    assert run.notes == [f"the instrument faulty failed and was switched off: KeyError: '{hook}'"]
    assert [(told["instrument"], told["error"]) for told in run.failures] == [("faulty", f"KeyError: '{hook}'")]
    assert recorder.backwards == [5, 5]
    assert recorder.steps == ["SGD", "SGD"]


def test_an_instrument_may_stop_an_operation(tmp_path: Path) -> None:
    class Stopping(Instrument):
        name = "stopping"

        def before_op(self, op: Op) -> None:
            raise Stop(op.name)

    path = str(tmp_path / "program.py")
    run = Run({"device": "cpu"}, Lines(path))
    with watching(run, [Stopping(run)]), pytest.raises(Stop, match="aten::ones"):
        exec(compile("import torch\ntorch.ones(3)", path, "exec"), {})
    assert run.notes == []


def test_hooks_do_not_see_their_own_operations(tmp_path: Path) -> None:
    class Reading(Recorder):
        def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
            super().backward_begins(roots, place)
            assert not roots[0].sin().requires_grad

    path = str(tmp_path / "program.py")
    run = Run({"device": "cpu"}, Lines(path))
    reading = Reading(run)
    with watching(run, [reading]):
        exec(compile("import torch\ntorch.ones(1, requires_grad=True).exp().backward()", path, "exec"), {})
    assert reading.backwards == [2]
    assert "aten::sin" not in {name for _, name, _ in reading.heard}


def test_a_closure_is_forward_and_no_optimizers(tmp_path: Path) -> None:
    program = (
        "w = torch.ones(3, requires_grad=True)\nopt = torch.optim.LBFGS([w])\ndef closure():\n    y = w.exp()\n"
        "    y.clamp_(max=2.0)\n    y.sum().backward()\n    return y.sum()\n"
    )
    for step in ("opt.step(closure)", "opt.step(closure=closure)"):
        run = watch(tmp_path, program + step, Inplace)
        assert spots(run) == [("DG101", 5)]
