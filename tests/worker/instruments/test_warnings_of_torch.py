"""Torch's own warnings become findings at the user's line."""

from __future__ import annotations

from pathlib import Path

from instrument_harness import said, spots, watch

from drygrad.worker.instruments.warnings_of_torch import WarningsOfTorch


def test_the_gradient_of_a_result_is_reported(tmp_path: Path) -> None:
    program = """
w = torch.ones(3, requires_grad=True)
y = w * 2
y.sum().backward()
print(y.grad)
"""
    assert spots(watch(tmp_path, program, WarningsOfTorch)) == [("DG118", 5)]


def test_a_dropout_between_no_layers_is_reported_where_the_layer_is_made(tmp_path: Path) -> None:
    assert spots(watch(tmp_path, "\nlayer = nn.LSTM(2, 3, dropout=0.5)\n", WarningsOfTorch)) == [("DG754", 2)]


def test_other_warnings_are_not(tmp_path: Path) -> None:
    program = "import warnings\nwarnings.warn('it is late')\n"
    assert said(watch(tmp_path, program, WarningsOfTorch)) == []
