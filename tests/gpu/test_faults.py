"""The same faults on a real GPU and on the simulated one: a run finds the same, at the same lines, in like words."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty_runs import PROGRAMS
from gpu_machine import Machine
from worker_client import plan

SEEDS = sorted((Path(__file__).parents[1] / "data" / "run").glob("s[0-9][0-9]_*.py"))
NUMBER = re.compile(r"-?\b\d[\d,.]*(e[-+]?\d+)?\b|\b(nan|inf)\b")


def found(machine: Machine, folder: Path, text: str, device: str) -> dict[str, Any]:
    """Return what is compared of a run: how it ended, and what it found, without the numbers."""
    result = machine.worker.run(plan(folder, text, device=device, timeout=8.0, gpu_memory=2 << 30))
    faults = [
        (fault["code"], fault["at"] and fault["at"]["line"], NUMBER.sub("N", fault["message"]))
        for fault in result["faults"]
    ]
    return {"outcome": result["outcome"], "faults": sorted(faults, key=str)}


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_a_seed(machine: Machine, tmp_path: Path, path: Path, record_property: Callable[[str, object], None]) -> None:
    text = path.read_text(encoding="utf-8")
    real = found(machine, tmp_path, text, machine.real)
    record_property("found", real)
    assert real == found(machine, tmp_path, text, "sim")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fault(machine: Machine, tmp_path: Path, name: str, record_property: Callable[[str, object], None]) -> None:
    code, text = PROGRAMS[name]
    real = found(machine, tmp_path, text, machine.real)
    record_property("found", real)
    assert code in {fault[0] for fault in real["faults"]}
    assert real == found(machine, tmp_path, text, "sim")
