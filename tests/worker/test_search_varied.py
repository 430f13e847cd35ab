"""How a search varies its proposal, to find out whether a failure depends on it."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import cast

import pytest
import torch

from drygrad.worker.search.nodes import Node
from drygrad.worker.search.seeking import Found, Search, _varied
from drygrad.worker.search.trial import Call, Failure, Origins, Trials


def test_sequences_get_longer() -> None:
    number = Node("number", value=8)
    proposal = Node("inputs", parts=(("action", Node("tuple", parts=(("0", number), ("1", number)))),))
    assert any(len(varied.at(("action",)).parts) == 3 for varied in _varied(proposal))


class Unfit:
    """Attempts that all fail at the same product, as long as nothing else is said."""

    def attempt(self, proposal: Node) -> Failure:
        call = Call("torch.matmul", [torch.zeros(2, 3), torch.zeros(4, 5)], {}, Origins())
        return Failure(RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"), call, 1)


@pytest.mark.parametrize(("image", "is_independent"), [("torch.zeros(4)", True), ("torch.rand(4, 4).numpy()", False)])
def test_a_failure_may_depend_on_an_array_that_comes_in_one_shape_only(image: str, is_independent: bool) -> None:
    proposal = Node("inputs", parts=(("x", Node("tensor", shape=(2, 64))), ("image", Node("text", text=image))))
    unfit = cast("Trials", Unfit())
    search = Search(unfit, 0.0, lambda _: None)
    assert search._is_independent(Found(proposal, unfit.attempt(proposal), 1)) is is_independent
