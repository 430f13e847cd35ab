"""Texts among the inputs: which others the code knows that fails with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from drygrad.worker.search.nodes import Node, text_of
from drygrad.worker.search.repair import repairs
from drygrad.worker.search.trial import Failure

KNOWN = {"nearest": 0, "bilinear": 2}


def written_out(mode: str) -> None:
    if mode in ("sum", "mean"):
        return
    if mode == "none":
        return
    raise ValueError(f"{mode} is unknown")


def looked_up(mode: str) -> int:
    return KNOWN[mode]


def asked_for(mode: str) -> None:
    assert mode in KNOWN


def goes_by_another(mode: str, kind: str = "a") -> None:
    if kind == "b":
        return
    raise ValueError(mode)


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (written_out, ["'sum'", "'mean'", "'none'"]),
        (looked_up, ["'nearest'", "'bilinear'"]),
        (asked_for, ["'nearest'", "'bilinear'"]),
        (goes_by_another, []),
    ],
)
def test_a_text_gives_way_to_those_that_the_code_knows(function: Callable[[str], Any], texts: list[str]) -> None:
    with pytest.raises(Exception) as caught:
        function("name")
    proposal = Node("inputs", parts=(("mode", Node("text", text="'name'")),))
    changes = repairs(proposal, Failure(caught.value, None, 1))
    found = dict.fromkeys(text_of(change.proposal.at(("mode",))) for change in changes)
    assert [text for text in found if text != "'name'"] == texts
