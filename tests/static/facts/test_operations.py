"""The tables of torch's operations say what torch says."""

from __future__ import annotations

import torch
from rule_harness import Example

from drygrad.static.facts.operations import NO_METHODS, NO_METHODS_OF_TORCH, TENSOR_METHODS


def test_tensors_lack_the_methods_that_they_are_said_to_lack() -> None:
    assert [name for name in NO_METHODS if hasattr(torch.Tensor, name)] == []
    assert [name for name in NO_METHODS if not hasattr(torch.nn.functional, name) and not hasattr(torch, name)] == []
    assert [name for name in NO_METHODS_OF_TORCH if not hasattr(torch, name)] == []


def test_tensors_have_the_methods_that_show_a_tensor() -> None:
    assert [name for name in TENSOR_METHODS if not hasattr(torch.Tensor, name)] == []


def test_a_method_that_tensors_lack_returns_nothing_that_could_be_thrown_away() -> None:
    text = "import torch\n\n\ndef f(x: torch.Tensor):\n    x.leaky_relu()\n    return x\n"
    assert [finding.code for finding in Example.of(text).findings()] == ["DG816"]
