"""How a search varies its proposal, to find out whether a failure depends on it."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from drygrad.worker.search.nodes import Node
from drygrad.worker.search.seeking import _varied


def test_sequences_get_longer() -> None:
    number = Node("number", value=8)
    proposal = Node("inputs", parts=(("action", Node("tuple", parts=(("0", number), ("1", number)))),))
    assert any(len(varied.at(("action",)).parts) == 3 for varied in _varied(proposal))
