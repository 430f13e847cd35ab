"""From inputs that run to others that come by what these left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from drygrad.worker.search.nodes import Node, text_of
from drygrad.worker.search.reaching import reaching
from drygrad.worker.search.trial import Failure, Trials

FAR = float("inf")
X = Node("tensor", shape=(2, 64))
SCALED = Node("text", text="True")
KIND = Node("text", text="'a'", others=(Node("text", text="'b'"),))
START = Node("inputs", parts=(("x", X), ("n", Node("number", value=8))), options=(("scaled", SCALED), ("kind", KIND)))
WANTED = 7
Enters = Callable[[dict[str, str]], bool]


class Attempts:
    """Attempts of a function whose wanted block is entered by some inputs, and fails there with others."""

    def __init__(self, enters: Enters, fails: Enters) -> None:
        self.blocks: set[int] = set()
        self._enters, self._fails = enters, fails

    def attempt(self, proposal: Node) -> Failure | None:
        given = {name: text_of(node) for name, node in proposal.parts}
        self.blocks.add(1)
        if not self._enters(given):
            return None
        self.blocks.add(WANTED)
        return Failure(ValueError("no"), None, 1) if self._fails(given) else None


def reached(
    enters: Enters,
    fails: Enters = lambda _: False,
    repaired: Callable[[Node], Node | None] = lambda _: None,
) -> dict[str, str] | None:
    attempts = Attempts(enters, fails)
    wanted = frozenset((WANTED,))
    found = reaching(START, cast("Trials", attempts), attempts.blocks, wanted, FAR, repaired)
    return {name: text_of(node) for name, node in found.parts} if found is not None else None


LEADING: list[tuple[Enters, dict[str, str]]] = [
    (lambda given: int(given["n"]) % 2 == 1, {"n": "9"}),
    (lambda given: "scaled" in given, {"scaled": "True"}),
    (lambda given: given.get("kind") == "'b'", {"kind": "'b'"}),
    (lambda given: given.get("kind") == "'b'" and "scaled" in given, {"scaled": "True", "kind": "'b'"}),
    (lambda given: "64" not in given["x"], {"x": "torch.randn(2, 7)"}),
    (lambda given: "* 0" in given["x"], {"x": "torch.randn(2, 64) * 0"}),
]


@pytest.mark.parametrize(("enters", "changed"), LEADING)
def test_what_leads_there_is_found(enters: Enters, changed: dict[str, str]) -> None:
    assert reached(enters) == {"x": "torch.randn(2, 64)", "n": "8", **changed}


def test_nothing_is_found_where_nothing_leads() -> None:
    assert reached(lambda _: False) is None


def test_what_fails_there_is_repaired() -> None:
    def repaired(node: Node) -> Node:
        return node.with_part("x", Node("tensor", shape=(3,)))

    assert reached(lambda given: "scaled" in given, lambda _: True) is None
    assert reached(lambda given: "scaled" in given, lambda given: "64" in given["x"], repaired) == {
        "x": "torch.randn(3)",
        "n": "8",
        "scaled": "True",
    }
