"""The first tensor bound to a name is told; what cannot be read is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from drygrad.worker.instruments.shapes import Shapes
from drygrad.worker.lines import Lines
from drygrad.worker.run import Run


def shapes(tmp_path: Path) -> Shapes:
    return Shapes(Run({"device": "cpu"}, Lines(str(tmp_path / "program.py"))))


def test_the_first_value_of_a_name(tmp_path: Path) -> None:
    instrument = shapes(tmp_path)
    instrument.assigned(4, "x", torch.tensor([[1.0, -2.5]], requires_grad=True))
    instrument.assigned(4, "x", torch.zeros(3))
    instrument.assigned(2, "y", torch.tensor([True, False]))
    instrument.finish()
    first, second = instrument.run.result["shapes"]
    assert second == {
        "line": 4,
        "name": "x",
        "shape": [1, 2],
        "dtype": "float32",
        "device": "cpu",
        "requires_grad": True,
        "low": -2.5,
        "high": 1.0,
    }
    assert (first["line"], first["dtype"], first["low"], first["high"]) == (2, "bool", 0, 1)


def test_lists_are_entered_by_element_and_modules_not(tmp_path: Path) -> None:
    instrument = shapes(tmp_path)
    instrument.assigned(1, "batch", (torch.zeros(2), "label", [torch.zeros(1)], torch.zeros(0)))
    instrument.assigned(2, "model", torch.nn.Linear(2, 2))
    instrument.finish()
    rows = instrument.run.result["shapes"]
    assert [row["name"] for row in rows] == ["batch[0]", "batch[3]"]
    assert "low" not in rows[1]


def test_values_that_cannot_be_read(tmp_path: Path) -> None:
    instrument = shapes(tmp_path)
    nested: Any = torch.nested
    odd = {
        "meta": torch.zeros(2, device="meta"),
        "sparse": torch.eye(2).to_sparse(),
        "nested": nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        "complex": torch.zeros(2, dtype=torch.complex64),
        "large": torch.zeros(1 << 17),
        "infinite": torch.tensor([float("inf"), 0.0]),
        "nan": torch.tensor([float("nan")]),
    }
    for name, value in odd.items():
        instrument.assigned(1, name, value)
    torch.func.vmap(lambda row: instrument.assigned(1, "mapped", row) or row)(torch.zeros(2, 2))  # type: ignore[func-returns-value]
    instrument.finish()
    rows = {row["name"]: (row.get("low", "no"), row.get("high", "no")) for row in instrument.run.result["shapes"]}
    assert rows == {
        "meta": ("no", "no"),
        "complex": ("no", "no"),
        "large": ("no", "no"),
        "infinite": (0.0, None),
        "nan": (None, None),
    }


def test_the_number_of_rows_is_bounded(tmp_path: Path) -> None:
    instrument = shapes(tmp_path)
    for line in range(3000):
        instrument.assigned(line, "x", torch.zeros(1))
    instrument.finish()
    assert len(instrument.run.result["shapes"]) == 2000
