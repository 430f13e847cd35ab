"""Subscripts, against torch."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drygrad.static.facts.shapes import Mismatch, Slice, index_shape, subscript
from drygrad.static.facts.values import UNKNOWN, Constant, Number, Sequence, Tensor

SUBSCRIPTS = """
a(4,5,6) | a[0]
a(4,5,6) | a[-1, 2]
a(4,5,6) | a[:, 0]
a(4,5,6) | a[..., 0]
a(4,5,6) | a[1:3, ::2]
a(4,5,6) | a[:, -2:]
a(4,5,6) | a[3:1]
a(4,5,6) | a[:100]
a(4,5,6) | a[None]
a(4,5,6) | a[:, None, ..., None]
a(4,5,6) | a[...]
a(4,5,6) | a[[0, 2]]
a(4,5,6) | a[(0, 2)]
a(4,5,6) i(7)int64 | a[i]
a(4,5,6) i(7,2)int64 | a[:, i]
a(4,5,6) i(3)int64 j(3)int64 | a[i, j]
a(4,5,6) i(3,1)int64 j(2)int64 | a[i, :, j]
a(4,5,6) i(3)int64 j(3)int64 | a[:, i, j]
a(4,5,6) i(3)int64 | a[0, :, i]
a(4,5,6) i(3)int64 | a[i, :, 0]
a(4,5,6) i(3)int64 | a[i, None]
a(4,5,6) i()int64 | a[i]
a(4,5,6) i(3)int64 | a[torch.arange(3), i]
""".strip().splitlines()

MASKED = """
a(4,5,6) m(4)bool | a[m]
a(4,5,6) m(4,5)bool | a[m]
a(4,5,6) m(5)bool | a[:, m]
a(4,5) m(4,5)bool | a[m]
""".strip().splitlines()

ERRORS = """
a(4,5) | a[4]
a(4,5) | a[0, -6]
a(4,5) | a[0, 0, 0]
a() | a[0]
a(4,5) m(5)bool | a[m]
a(4,5) i(3)int64 j(2)int64 | a[i, j]
""".strip().splitlines()


def told(bench: Any, case: Any) -> Any:
    node = ast.parse(case.expression, mode="eval").body
    return index_shape(case.shapes["a"], node, bench.value_reader(case, case.shapes))


@pytest.mark.parametrize("text", SUBSCRIPTS)
def test_tells_the_shape(text: str, bench: Any, parse: Any) -> None:
    case = parse(text)
    assert told(bench, case) == bench.real(case)


@pytest.mark.parametrize("text", MASKED)
def test_tells_the_rank_of_a_masked_tensor(text: str, bench: Any, parse: Any, is_true: Any) -> None:
    case = parse(text)
    shape = told(bench, case)
    assert shape is not None
    assert None in shape
    assert is_true(shape, bench.real(case), {})


@pytest.mark.parametrize("text", ERRORS)
def test_raises_where_torch_raises(text: str, bench: Any, parse: Any) -> None:
    case = parse(text)
    with pytest.raises((IndexError, RuntimeError)):
        bench.real(case)
    with pytest.raises(Mismatch):
        told(bench, case)


def test_unknown_parts_stay_unknown() -> None:
    assert subscript(None, (Constant(0),)) is None
    assert subscript((4, 5), (UNKNOWN,)) is None
    assert subscript((4, 5), (Number(),)) == (5,)
    assert subscript(("n", 5), (Slice(),)) == ("n", 5)
    assert subscript(("n", 5), (Slice(stop=Constant(3)),)) == (None, 5)
    assert subscript((4, 5), (Slice(stop=UNKNOWN),)) == (None, 5)
    assert subscript((4, 5), (Tensor(shape=(3,)),)) is None
    assert subscript((4, 5), (Sequence("list", None),)) is None
    assert subscript(("n", 5), (Constant(7),)) == (5,)


def slice_value(item: Any) -> Slice:
    return Slice(Constant(item.start), Constant(item.stop), Constant(item.step))


bounds = st.none() | st.integers(-7, 7)
slices = st.builds(slice, bounds, bounds, st.none() | st.integers(1, 3))
items = st.lists(st.integers(-3, 3) | slices | st.none() | st.just(...), max_size=5)


@settings(max_examples=400, deadline=None)
@given(shape=st.lists(st.integers(0, 5), max_size=4), index=items)
def test_any_basic_subscript(bench: Any, shape: list[int], index: list[Any]) -> None:
    if index.count(...) > 1:
        return
    values = tuple(slice_value(item) if isinstance(item, slice) else Constant(item) for item in index)
    tensor = bench.torch.zeros(shape)
    try:
        real = tuple(tensor[tuple(index)].shape)
    except IndexError:
        with pytest.raises(Mismatch):
            subscript(tuple(shape), values)
        return
    assert subscript(tuple(shape), values) == real
