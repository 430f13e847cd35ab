"""Torch's own warnings become findings at the user's line."""

from __future__ import annotations

from pathlib import Path

from instrument_harness import related, said, spots, watch

from drygrad.worker.instruments.warnings_of_torch import WarningsOfTorch


def test_the_gradient_of_a_result_is_reported(tmp_path: Path) -> None:
    program = """
w = torch.ones(3, requires_grad=True)
y = w * 2
y.sum().backward()
print(y.grad)
"""
    assert spots(watch(tmp_path, program, WarningsOfTorch)) == [("DG118", 5)]


def test_a_gradient_missing_in_the_next_pass_is_told_where_the_tensor_is_bound(tmp_path: Path) -> None:
    program = """
x = torch.ones(3, requires_grad=True)
for _ in range(2):
    (x ** 2).sum().backward()
    step = x.grad
    x = (x - 0.1).clamp(0, 1)
"""
    run = watch(tmp_path, program, WarningsOfTorch)
    assert spots(run) == [("DG118", 6)]
    assert related(run.faults[0]) == {"grad is None here": 5}


def test_what_fails_of_the_missing_gradient_is_the_same_fault(tmp_path: Path) -> None:
    program = """
x = torch.ones(3, requires_grad=True)
for _ in range(2):
    (x ** 2).sum().backward()
    step = x.grad.sign()
    x = (x - 0.1 * step).clamp(0, 1)
"""
    assert spots(watch(tmp_path, program, WarningsOfTorch)) == [("DG118", 6)]


def test_a_dropout_between_no_layers_is_reported_where_the_layer_is_made(tmp_path: Path) -> None:
    assert spots(watch(tmp_path, "\nlayer = nn.LSTM(2, 3, dropout=0.5)\n", WarningsOfTorch)) == [("DG754", 2)]


def test_other_warnings_are_not(tmp_path: Path) -> None:
    program = "import warnings\nwarnings.warn('it is late')\n"
    assert said(watch(tmp_path, program, WarningsOfTorch)) == []
