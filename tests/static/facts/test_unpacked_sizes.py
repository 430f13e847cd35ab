"""What sizes in the text tell of tensors of unknown shape."""

from __future__ import annotations

import ast

import pytest

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import UNKNOWN, Shape, Tensor


def shape_given_to_relu(*lines: str) -> Shape | None:
    text = "import torch\ndef f(x, y: torch.Tensor):\n    " + "\n    ".join(lines)
    tree = ast.parse(text)
    facts = ModuleFacts(tree, text)
    (relu,) = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and "relu" in ast.unparse(n.func))
    value = facts.recording.values.get(relu.args[0], UNKNOWN)
    return value.shape if isinstance(value, Tensor) else None


@pytest.mark.parametrize(("size", "shape"), [("size()", ("b@3", "c@3")), ("shape", None)])
def test_only_a_tensors_size_can_be_called(size: str, shape: Shape | None) -> None:
    assert shape_given_to_relu(f"b, c = x.{size}", "return torch.relu(x)") == shape


def test_a_view_has_the_sizes_that_it_names() -> None:
    assert shape_given_to_relu("return torch.relu(y.view(4, -1, 3))") == (4, None, 3)
