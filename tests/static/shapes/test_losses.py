"""What a loss's input and target must have in common, against torch."""

from __future__ import annotations

from typing import Any

import pytest

from drygrad.static.facts.shapes import loss_problem

FINE = """
a(4,3) b(4)int64 | F.cross_entropy(a, b)
a(3) b()int64 | F.cross_entropy(a, b)
a(3) b(3) | F.cross_entropy(a, b)
a(4,3) b(4,3) | F.cross_entropy(a, b)
a(4,3,5,6) b(4,5,6)int64 | nn.CrossEntropyLoss()(a, b)
a(4,3,5) b(4,3,5) | nn.CrossEntropyLoss()(a, b)
a(4,3) b(4)int64 | nn.NLLLoss()(a, b)
a(3) b()int64 | F.nll_loss(a, b)
a(4,3) b(4,3) | F.binary_cross_entropy(a, b)
a(4,1) b(4,1) | nn.BCEWithLogitsLoss()(a, b)
a(4,3) b(3) | F.mse_loss(a, b)
a(4,1) b(4) | nn.MSELoss()(a, b)
""".strip().splitlines()

WRONG = """
a(4,3) b(5)int64 | F.cross_entropy(a, b)
a(4,3) b(4,1)int64 | F.cross_entropy(a, b)
a(4,3) b(4,3)int64 | F.cross_entropy(a, b)
a(4,3) b()int64 | F.cross_entropy(a, b)
a(4,3,5) b(4,3)int64 | nn.CrossEntropyLoss()(a, b)
a(4,3,5,6) b(4,6,5)int64 | nn.CrossEntropyLoss()(a, b)
a(3) b(2)int64 | F.cross_entropy(a, b)
a(4,3) b(4,3)int64 | nn.NLLLoss()(a, b)
a(4,3) b(3)int64 | F.nll_loss(a, b)
a(4,1) b(4) | F.binary_cross_entropy(a, b)
a(4,1) b(4) | nn.BCELoss()(a, b)
a(4,1) b(4) | F.binary_cross_entropy_with_logits(a, b)
a(4,3) b(4,2) | nn.BCEWithLogitsLoss()(a, b)
a(4,3) b(4,2) | F.mse_loss(a, b)
a(4,3) b(5) | nn.SmoothL1Loss()(a, b)
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("text", FINE)
def test_nothing_is_said_where_torch_accepts(text: str, bench: Any, parse: Any) -> None:
    case = parse(text)
    bench.real(case)
    assert loss_problem(bench.call(case)) is None


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("text", WRONG)
def test_says_what_torch_refuses(text: str, bench: Any, parse: Any) -> None:
    case = parse(text)
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        bench.real(case)
    problem = loss_problem(bench.call(case))
    assert problem is not None
    assert problem.kind in ("loss", "broadcast")


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss", "binary_cross_entropy", "mse_loss"])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_every_pair_of_small_shapes(name: str, dtype: str, bench: Any, parse: Any) -> None:
    """No problem is told of a pair that torch accepts."""
    shapes = ["", "1", "2", "3", "2,3", "3,2", "1,3", "2,1", "2,3,2", "2,2", "2,3,1"]
    for first in shapes:
        for second in shapes:
            case = parse(f"a({first}) b({second}){dtype} | F.{name}(a, b)")
            if loss_problem(bench.call(case)) is not None:
                with pytest.raises((RuntimeError, ValueError, IndexError)):
                    bench.real(case)


def test_unknown_sizes_are_no_problem(bench: Any, parse: Any) -> None:
    case = parse("a(4,3) b(5)int64 | F.cross_entropy(a, b)")
    assert loss_problem(bench.call(case, {"a": ("n", 3), "b": (5,)})) is None
    assert loss_problem(bench.call(case, {"a": None, "b": (5,)})) is None
    assert loss_problem(bench.call(case, {"a": (None, None), "b": (None, None, None)})) is not None
    assert loss_problem(bench.call(parse("a(4) b(5) | torch.add(a, b)"))) is None
