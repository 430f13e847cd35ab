"""Arithmetic of uint8 tensors that wraps around is reported with the value that was meant."""

from __future__ import annotations

from pathlib import Path

from instrument_harness import said, the_fault, watch

from drygrad.worker.instruments.integers import Integers


def test_a_difference_below_zero_is_reported_with_both_values(tmp_path: Path) -> None:
    program = """
a = torch.tensor([10, 200], dtype=torch.uint8)
b = torch.tensor([12, 100], dtype=torch.uint8)
change = (a - b).abs()
"""
    run = watch(tmp_path, program, Integers)
    the_fault(run, "DG413", 4, "uint8 wraps around at 1 of 2 positions: a - b is -2 there and becomes 254")


def test_a_sum_in_place_is_compared_before_it_is_written(tmp_path: Path) -> None:
    run = watch(tmp_path, "a = torch.full((3,), 200, dtype=torch.uint8)\na += a\n", Integers)
    the_fault(run, "DG413", 2, "uint8 wraps around at 3 of 3 positions: a + b is 400 there and becomes 144")


def test_what_stays_in_range_or_is_widened_is_not_reported(tmp_path: Path) -> None:
    program = """
a = torch.tensor([10, 200], dtype=torch.uint8)
inverted, wide, masked = 255 - a, a.float() - 300, a * (a > 20)
"""
    assert said(watch(tmp_path, program, Integers)) == []
