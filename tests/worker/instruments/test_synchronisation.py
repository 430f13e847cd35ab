"""Waits that a run on the CPU would cause on a device are counted by line."""

from __future__ import annotations

from pathlib import Path

from instrument_harness import said, watch

from drygrad.worker.instruments.synchronisation import Synchronisation

PROGRAM = """
x = torch.randn(8)
for step in range(3):
    loss = x.sum().item()
    if (x > 0).any():
        positive = x[x > 0]
first = x[torch.tensor([0])]
copy = x.to("cpu")
"""


def test_waits_are_counted_by_line(tmp_path: Path) -> None:
    run = watch(tmp_path, PROGRAM, Synchronisation)
    assert [(row["line"], row["kind"], row["op"], row["count"]) for row in run.result["syncs"]] == [
        (7, "sync", "aten::_local_scalar_dense", 3),
        (8, "sync", "aten::_local_scalar_dense", 3),
        (9, "sync", "aten::index", 3),
    ]
    assert said(run) == []
