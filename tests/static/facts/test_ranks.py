"""What a test of its rank tells of a tensor."""

from __future__ import annotations

import ast

import pytest

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Shape, Tensor


def shape_in_branch(test: str, made: str = "torch.ones(2, 3)") -> Shape | None:
    """Return what is known of the shape of x where a test holds."""
    text = f"import torch\ndef f(x: torch.Tensor):\n    if {test}:\n        y = x\nf({made})\n"
    facts = ModuleFacts(ast.parse(text), text)
    found = next(v for n, v in facts.recording.values.items() if isinstance(n, ast.Name) and n.lineno == 4)
    assert isinstance(found, Tensor)
    return found.shape


@pytest.mark.parametrize("test", ["x.ndim == 2", "x.dim() == 2", "len(x.shape) == 2", "not x.ndim != 2"])
def test_equal_ranks_keep_the_shape(test: str) -> None:
    """The caller's sizes stand where the test agrees with them."""
    assert shape_in_branch(test) == (2, 3)


@pytest.mark.parametrize("test", ["x.ndim == 4", "x.dim() == 4", "len(x.shape) == 4"])
def test_another_rank_replaces_the_shape(test: str) -> None:
    """The branch is for callers that the file does not show."""
    assert shape_in_branch(test) == (None, None, None, None)


@pytest.mark.parametrize("test", ["x.ndim > 2", "x.dim() != 2"])
def test_other_comparisons_leave_the_shape_open(test: str) -> None:
    """Nothing is claimed of tensors that the known callers do not give."""
    assert shape_in_branch(test) is None
