"""A static method has no receiver."""

from __future__ import annotations

import ast

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Tensor


def test_the_arguments_of_a_static_method_keep_their_places() -> None:
    text = """
import torch

class Loss:
    def total(self):
        return self.weighted(torch.randn(3), torch.randn(4, 5))

    @staticmethod
    def weighted(first, second):
        return second
"""
    tree = ast.parse(text)
    facts = ModuleFacts(tree, text)
    (returned,) = (n for n in ast.walk(tree) if isinstance(n, ast.Return) and isinstance(n.value, ast.Name))
    assert returned.value is not None
    value = facts.recording.values[returned.value]
    assert isinstance(value, Tensor)
    assert value.shape == (4, 5)
