"""What is known of values that dictionaries, dataclasses and partial functions hold, and of Python's ``sum``."""

from __future__ import annotations

import ast

import pytest
import torch

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Tensor

HEAD = """
import torch
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

@dataclass
class Base:
    x: torch.Tensor

@dataclass
class Pair(Base):
    y: torch.Tensor = field(default_factory=lambda: torch.ones(2))

class Named(NamedTuple):
    x: torch.Tensor
    y: int = 0

x = torch.zeros(3, 4)
d = {"x": x}
"""


def last(text: str) -> Tensor | None:
    """Return the tensor that the last line is, as far as that is known."""
    text = f"{HEAD}{text}\n"
    tree = ast.parse(text)
    facts = ModuleFacts(tree, text)
    end = tree.body[-1]
    assert isinstance(end, ast.Expr)
    value = facts.recording.values.get(end.value)
    return value if isinstance(value, Tensor) else None


@pytest.mark.parametrize(
    "text",
    [
        "Pair(x, torch.ones(2)).x",
        "Pair(y=torch.ones(2), x=x).x",
        "Named(x).x",
        "partial(torch.relu)(x)",
        "partial(torch.softmax, dim=1)(x)",
        "partial(lambda a, b: b, 1)(x)",
        "d['y'] = x.relu()\nd['y']",
        "d.get('x')",
        "d.copy()['x']",
    ],
)
def test_what_is_held_is_known(text: str) -> None:
    found = last(text)
    assert found is not None
    assert found.shape == (3, 4)


@pytest.mark.parametrize(
    "text",
    [
        "d['x'] = 1\nd['x']",
        "d.update(x=1)\nd['x']",
        "change(d)\nd['x']",
        "Pair(*rest).x",
        "partial(torch.add, torch.ones(1))(x)",
        "partial(x.new_tensor)([1])",
    ],
)
def test_what_may_have_changed_is_not(text: str) -> None:
    found = last(text)
    assert found is None or found.shape != (3, 4)


@pytest.mark.parametrize(
    "terms",
    ["[torch.ones(2, 3), torch.ones(2, 3)]", "torch.ones(4, 2, 3)", "[torch.ones(2, 3) > 0 for _ in range(4)]"],
)
def test_a_sum_of_tensors_is_a_tensor(terms: str) -> None:

    found, truth = last(f"sum({terms})"), eval(f"sum({terms})", {"torch": torch})
    assert found is not None
    assert found.shape == tuple(truth.shape)
    assert found.dtype in (None, str(truth.dtype).removeprefix("torch."))


def test_a_sum_has_the_graph_of_its_terms() -> None:
    found = last("w = torch.ones(2, requires_grad=True)\nsum([w * 2, w * 3])")
    assert found is not None
    assert found.requires_grad
    assert last("sum([x], 5.0)") is None
