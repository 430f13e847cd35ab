"""Inputs of the wrong kind, as the error says it: one tensor for several, a number for a flag."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

from drygrad.worker.search.nodes import Node, text_of
from drygrad.worker.search.repair import repairs
from drygrad.worker.search.trial import Failure


def put_together(images: Any) -> None:
    torch.cat(images, dim=0)


def with_flag(enabled: Any) -> None:
    torch.set_grad_enabled(enabled)


def changed(function: Any, name: str, node: Node, value: Any) -> list[str]:
    """Return what an input becomes after a function has failed with a value of it."""
    with pytest.raises(TypeError) as caught:
        function(value)
    failure = Failure(caught.value, None, 1)
    failure.built = [(value, (name,))]
    proposal = Node("inputs", parts=((name, node),))
    return [text_of(change.proposal.at((name,))) for change in repairs(proposal, failure)]


def test_one_tensor_becomes_several() -> None:
    one = "torch.randn(2, 3)"
    assert f"[{one}, {one}]" in changed(put_together, "images", Node("tensor", shape=(2, 3)), torch.ones(2, 3))


def test_a_number_becomes_a_flag() -> None:
    assert changed(with_flag, "enabled", Node("number", value=8), 8)[:2] == ["False", "True"]
    assert "False" not in changed(with_flag, "other", Node("number", value=8), 8)


class Buffer:
    """What has nothing."""


def of_a_table(table: Any) -> None:
    table.columns()


def with_length(alphabet: Any) -> None:
    len(alphabet)


def test_what_lacks_an_attribute_is_given_it_whatever_it_is() -> None:
    cases: list[tuple[Node, Any, str]] = [
        (Node("mapping"), {}, "(type('Mapping', (dict,), {})({}), "),
        (Node("call", "Learner"), Buffer(), "(Learner(), "),
    ]
    for node, value, made in cases:
        with pytest.raises(AttributeError) as caught:
            of_a_table(value)
        failure = Failure(caught.value, None, 1)
        failure.built = [(value, ("table",))]
        found = [text_of(c.proposal.at(("table",))) for c in repairs(Node("inputs", parts=(("table", node),)), failure)]
        assert any(made in text and "columns=(lambda" in text for text in found)


def test_a_stand_in_is_given_a_length() -> None:
    given = Node("namespace", parts=(("padding", Node("number", value=5)),))
    (first, *_) = changed(with_length, "alphabet", given, types.SimpleNamespace(padding=5))
    assert "'__len__': lambda" in first
