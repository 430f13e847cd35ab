"""The call that a program has come to: what it passes, as it is and, for experiments, once more as it was."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import inspect
import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from drygrad.worker import deadline
from drygrad.worker.arriving import Call, Program
from drygrad.worker.inputs import InputError
from drygrad.worker.search.isolated import Overdue


def call(held: Any, weights: Any) -> Call:
    frame = inspect.currentframe()
    assert frame is not None
    return Call(frame, {"experiments": {"codes": []}, "method_of": None}, "train.py")


def values(made: Call) -> list[Any]:
    return [value for _, value in made.give()[1]]


def test_the_first_inputs_are_those_of_the_call() -> None:
    held, weights = {"x": torch.ones(2)}, [torch.ones(3)]
    first = values(call(held, weights))
    assert first[0] is held
    assert first[1] is weights


def test_later_ones_are_what_they_were_before_they_changed() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    made = call({"x": weight * 2}, [weight, weight])
    first = values(made)
    with torch.no_grad():
        first[0]["x"].mul_(5)
        weight.zero_()
    for _ in range(2):
        held, weights = values(made)
        assert held["x"].tolist() == [2.0, 2.0, 2.0]
        assert (held["x"].is_leaf, held["x"].requires_grad) == (True, True)
        assert weights[0].tolist() == [1.0, 1.0, 1.0]
        assert weights[0] is weights[1]
        weights[0].data.zero_()
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly"):
        first[0]["x"].__deepcopy__({})


def test_what_cannot_be_copied_is_given_once() -> None:
    made = call((n for n in range(3)), None)
    assert next(values(made)[0]) == 0
    with pytest.raises(InputError):
        made.give()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_the_time_in_which_a_busy_machine_does_something_else_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    program: Any = SimpleNamespace(_asked={"seconds": 0.05}, _run=SimpleNamespace(imports=SimpleNamespace(seconds=0.0)))
    monkeypatch.setattr(deadline, "queued", time.monotonic)
    with Program._in_time(program):
        time.sleep(0.7)  # the alarm rings again after half a second
    monkeypatch.setattr(deadline, "queued", lambda: 0.0)
    with pytest.raises(Overdue), Program._in_time(program):
        time.sleep(0.7)  # the alarm rings again after half a second
