"""Conversions that lose what a value is are reported with the value and what became of it."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from instrument_harness import said, spots, the_fault, watch

from drygrad.worker.instruments.conversions import Conversions


def test_values_outside_of_an_integer_type_are_reported(tmp_path: Path) -> None:
    run = watch(tmp_path, "x = torch.tensor([-0.5, 1.2])\ny = (x * 255).to(torch.uint8)\n", Conversions)
    the_fault(run, "DG420", 2, "2 of 2 values exceed the range of uint8: -127.5 becomes")


def test_nan_has_no_integer(tmp_path: Path) -> None:
    run = watch(tmp_path, "x = torch.tensor([float('nan'), 1.0]).long()\n", Conversions)
    the_fault(run, "DG420", 1, "1 of 2 values")


def test_what_an_integer_type_holds_is_not_reported(tmp_path: Path) -> None:
    program = """
x = torch.tensor([-0.3, 254.9, 7.5])
y, z, b = x.to(torch.uint8), x.long(), torch.tensor([-3.0, 1e30]).bool()
w = torch.tensor([300, -1]).to(torch.uint8)
"""
    assert said(watch(tmp_path, program, Conversions)) == []


def test_positions_that_fall_together_are_a_warning(tmp_path: Path) -> None:
    run = watch(tmp_path, "p = torch.arange(1000).to(torch.bfloat16)\n", Conversions)
    fault = the_fault(run, "DG421", 1, "1000 different numbers become")
    assert fault.severity == "warning"


def test_scattered_integers_that_fall_together_are_an_info(tmp_path: Path) -> None:
    run = watch(tmp_path, "t = torch.tensor([999, 997, 998, 3]).bfloat16()\n", Conversions)
    assert the_fault(run, "DG421", 1, "4 different numbers become").severity == "info"


def test_a_range_in_half_precision_is_compared_with_its_length(tmp_path: Path) -> None:
    run = watch(tmp_path, "p = torch.arange(4096, dtype=torch.float16)\nq = torch.arange(2048).half()\n", Conversions)
    the_fault(run, "DG421", 1, "4096 different numbers become")


def test_integers_that_stay_apart_are_not_reported(tmp_path: Path) -> None:
    program = "n = torch.tensor([1001, 513, 4]).bfloat16()\nm = torch.arange(257).to(torch.bfloat16)\n"
    assert said(watch(tmp_path, program, Conversions)) == []


def test_a_fraction_written_into_integers_is_reported(tmp_path: Path) -> None:
    program = """
t = torch.zeros(4, dtype=torch.long)
a = torch.full_like(t, 0.9)
b = t.masked_fill(t == 0, 0.5)
t[:2] = torch.rand(2)
c = torch.full_like(t, 2.0), torch.full_like(t, 0.9, dtype=torch.float32)
t[:2] = torch.tensor([3.2, 0.1])
"""
    assert spots(watch(tmp_path, program, Conversions)) == [("DG419", 3), ("DG419", 4), ("DG419", 5)]


def test_what_an_installed_package_converts_is_its_own_business(tmp_path: Path) -> None:
    program = f"""
folder = "{sysconfig.get_path("purelib")}"
names = dict(__name__="package.layers", torch=torch)
exec(compile("def distance(x): return x.log().long()", folder + "/package/layers.py", "exec"), names)
names["distance"](torch.zeros(3))
"""
    assert said(watch(tmp_path, program, Conversions)) == []
    own = program.replace(sysconfig.get_path("purelib"), str(tmp_path))
    assert [code for code, _ in said(watch(tmp_path, own, Conversions))] == ["DG420"]
