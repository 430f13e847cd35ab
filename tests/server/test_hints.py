"""What stands at the end of a line of what a run has bound there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from drygrad.dryrun.result import Shape
from drygrad.lsp.observed import hints


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["mixed"], ": float32 [2] cpu"),
        (["mixed", "weights"], "mixed: float32 [2] cpu, weights: float32 [2] cpu"),
        (["_", "mixed"], ": float32 [2] cpu"),
        (["_"], ": float32 [2] cpu"),
    ],
)
def test_a_line_shows_what_it_binds_but_for_what_it_throws_away(names: list[str], label: str) -> None:
    shapes = [Shape(3, name, (2,), "torch.float32", "cpu") for name in names]
    (hint,) = hints(cast("Any", SimpleNamespace(shapes=shapes)))
    assert hint.label == label
    assert [line.partition(":")[0] for line in hint.tooltip.splitlines()] == names
