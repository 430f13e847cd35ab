"""Forecasts programs, runs them on the simulated GPU, and writes ``simulated.md``.

``python tests/forecast/simulated/measure.py [NAME...]``; with names, only these, and nothing is written. The
interpreter, or that of ``DRYGRAD_PYTHON``, has torch, torchvision, timm and transformers.
"""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "support"))

from worker_client import WorkerClient, plan  # noqa: E402 - that is where it lies

PROGRAMS = HERE.parents[1] / "data" / "simulated" / "programs.py"
MIB = 1 << 20
NEAR = 0.01


WATCH = """
import sys
from drygrad.worker.forecast.allocator import CachingAllocator

class Watch:
    def __init__(self):
        self.allocator, self.addresses = CachingAllocator(), {}

    def taken(self, size, address, device):
        self.addresses[address] = self.allocator.malloc(size)

    def released(self, address):
        self.allocator.free(self.addresses.pop(address, 0))

watch = sys.modules["drygrad.worker.devices.sim.memory"].watcher = Watch()
"""
"""Has torch's allocator serve what is really taken; it counts whole blocks, as ``torch.cuda.memory_allocated()``."""


class Row(NamedTuple):
    """What a forecast says of a program, and what its run has taken."""

    name: str
    forecast: tuple[int, int]
    """The peaks of what is allocated, and reserved."""
    run: tuple[int, int]
    adds_up: bool

    @property
    def off(self) -> float:
        """How far the peak is from that of the run."""
        return self.forecast[0] / self.run[0] - 1

    def cells(self) -> str:
        """Return the row of the table."""
        off = [
            "equal" if ours == theirs else f"{ours / theirs - 1:+.2%}"
            for ours, theirs in zip(self.forecast, self.run, strict=True)
        ]
        took, said = (f"{each[0] / MIB:.2f}" for each in (self.run, self.forecast))
        return f"| {self.name} | {took} | {said} | {off[0]} | {off[1]} | {'yes' if self.adds_up else 'no'} |"


def measured(worker: WorkerClient, name: str) -> Row:
    """Follow a program in both ways: without memory, and without instruments, whose own work would count."""
    text = PROGRAMS.read_text(encoding="utf-8")
    conditions: dict[str, Any] = {"device": "sim", "timeout": 600.0}
    followed = worker.run(plan(HERE, f"{text}\n{name}()\n", forecast={"gpu": None}, **conditions))
    told = "print('PEAK', watch.allocator.peak_allocated, watch.allocator.peak_reserved)"
    real = plan(HERE, f"{text}{WATCH}\n{name}()\n{told}\n", instruments=[], backward_probe=False, **conditions)
    ran = worker.run(real)
    assert followed["outcome"] == ran["outcome"] == "passed", (name, followed["error"], ran["error"])
    forecast = followed["forecast"]
    allocated, reserved = map(int, ran["output"]["text"].split("PEAK")[1].split())
    adds_up = sum(row["bytes"] for row in forecast["by_line"]) == forecast["peak_allocated"]
    peaks = forecast["peak_allocated"], forecast["peak_reserved"]
    return Row(name.replace("_", " "), peaks, (allocated, reserved), adds_up)


def programs() -> list[str]:
    """Return the functions of ``programs.py`` that need no arguments."""
    tree = ast.parse(PROGRAMS.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.args.args]


def main() -> None:
    """Write the table."""
    rows: list[Row] = []
    with WorkerClient(python=os.environ.get("DRYGRAD_PYTHON", sys.executable)) as worker:
        for name in sys.argv[1:] or programs():
            rows.append(measured(worker, name))
            sys.stderr.write(f"{rows[-1].cells()}\n")
    if not sys.argv[1:]:
        _write(rows)


def _write(rows: list[Row]) -> None:
    equal, near = sum(row.forecast[0] == row.run[0] for row in rows), sum(abs(row.off) <= NEAR for row in rows)
    kept, sums = sum(row.forecast[1] == row.run[1] for row in rows), sum(row.adds_up for row in rows)
    path = HERE / "simulated.md"
    head = path.read_text(encoding="utf-8").partition("\nOf ")[0].rstrip()
    said = f"Of {len(rows)} programs, {equal} allocate what was said to the byte, {near} within 1 %; {kept} reserve it."
    sums_said = f"The lines of {sums} add up to the peak."
    table = ["| program | run, MiB | forecast, MiB | allocated | reserved | lines add up |", "| --- " * 6 + "|"]
    text = "\n".join([head, "", f"{said} {sums_said}", "", *table, *(row.cells() for row in rows), ""])
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
