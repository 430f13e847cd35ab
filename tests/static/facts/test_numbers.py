"""What Python values are made of tensors."""

from __future__ import annotations

import ast

import pytest

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import UNKNOWN, Number, Sequence, Value


def value_of(expression: str) -> Value:
    text = f"import torch\nx = torch.ones(2, 3)\ny = {expression}\n"
    return ModuleFacts(ast.parse(text), text).globals["y"]


def test_a_list_of_a_tensor_is_as_deep_as_it_has_dimensions() -> None:
    assert value_of("x.tolist()") == Sequence("list", None, Sequence("list", None, Number()))
    assert isinstance(value_of("x.sum().tolist()"), Number)


def test_nothing_is_known_of_a_list_whose_depth_is_not() -> None:
    text = "import torch\ndef f(x: torch.Tensor):\n    y = x.tolist()\n    return y\nz = f(torch.load('x'))\n"
    assert ModuleFacts(ast.parse(text), text).globals["z"] == UNKNOWN


@pytest.mark.parametrize("made", ["zip(*unknown)", "zip(*[x, x], *unknown)"])
def test_nothing_is_known_of_what_zip_is_given_by_a_star(made: str) -> None:
    text = f"unknown = load()\nx = {made}\nfor pair in x:\n    y = pair\n"
    assert ModuleFacts(ast.parse(text), text).globals["y"] == UNKNOWN
