"""Arithmetic of shapes on drawn sizes, against torch, and what symbols keep."""

from __future__ import annotations

import ast
import time
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drygrad.static.facts.shapes import (
    Mismatch,
    attribute_shape,
    broadcast,
    call_shape,
    factory_shape,
    matmul,
    numel,
    operator_shape,
    size_of,
)
from drygrad.static.facts.values import UNKNOWN, Constant, Number, Sequence, Shape, Tensor, TorchCall, Value

sizes = st.integers(0, 4)
shapes = st.lists(sizes, max_size=4).map(tuple)


@settings(max_examples=300, deadline=None)
@given(first=shapes, second=shapes)
def test_broadcast(bench: Any, first: Any, second: Any) -> None:
    try:
        real = tuple(bench.torch.broadcast_shapes(first, second))
    except RuntimeError:
        with pytest.raises(Mismatch):
            broadcast(first, second)
        return
    assert broadcast(first, second) == real


@settings(max_examples=300, deadline=None)
@given(first=shapes, second=shapes)
def test_matmul(bench: Any, first: Any, second: Any) -> None:
    torch = bench.torch
    try:
        real = tuple(torch.matmul(torch.zeros(first), torch.zeros(second)).shape)
    except RuntimeError:
        with pytest.raises(Mismatch):
            matmul(first, second)
        return
    assert matmul(first, second) == real


@settings(max_examples=300, deadline=None)
@given(shape=shapes, wanted=st.lists(st.integers(-1, 6), min_size=1, max_size=4))
def test_view(bench: Any, parse: Any, shape: Any, wanted: list[int]) -> None:
    case = parse(f"a({','.join(map(str, shape))}) | a.view({', '.join(map(str, wanted))})")
    try:
        real = bench.real(case)
    except RuntimeError:
        assume(0 not in wanted or -1 not in wanted)
        with pytest.raises(Mismatch):
            bench.static(case)
        return
    assert bench.static(case) in (real, tuple(None if size == -1 else size for size in wanted))


@settings(max_examples=300, deadline=None)
@given(
    size=st.integers(1, 12),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    name=st.sampled_from(["Conv1d(2, 3, ", "ConvTranspose1d(2, 3, ", "MaxPool1d("]),
    ceil=st.booleans(),
)
def test_windows(bench: Any, parse: Any, size: int, name: str, kernel: int, ceil: bool, **window: int) -> None:
    assume(name != "MaxPool1d(" or 2 * window["padding"] <= kernel)
    more = ", ".join(f"{key}={value}" for key, value in window.items())
    more += f", ceil_mode={ceil}" if name == "MaxPool1d(" else ""
    case = parse(f"a(1,2,{size}) | nn.{name}{kernel}, {more})(a)")
    try:
        real = bench.real(case)
    except RuntimeError:
        if "Transpose" not in name:
            with pytest.raises(Mismatch):
                bench.static(case)
        return
    assert bench.static(case) == real


@pytest.mark.parametrize(
    ("expression", "shape", "expected"),
    [
        ("a.view(2, -1)", ("n", 3), (2, None)),
        ("a.view(-1, 12)", ("n", 3, 4), ("n", 12)),
        ("a.view(-1, 3)", ("n", 3), ("n", 3)),
        ("a.flatten(1)", ("n", 3, 4), ("n", 12)),
        ("a.transpose(0, 1)", ("n", 3), (3, "n")),
        ("nn.Conv2d(3, 8, 3, padding=1)(a)", ("n", 3, "h", None), ("n", 8, "h", None)),
        ("nn.Conv2d(3, 8, 3)(a)", ("n", None, "h", 9), ("n", 8, None, 7)),
        ("nn.Linear(3, 4)(a)", ("n", "m"), ("n", 4)),
        ("torch.add(a, 1)", ("n",), ("n",)),
        ("a.squeeze()", ("n", 1), None),
        ("a.squeeze(1)", ("n", 1), ("n",)),
        ("a.repeat(2, 1)", ("n", 1), (None, 1)),
        ("nn.LSTM(3, 4, batch_first=True)(a)", ("n", 7, 3), (("n", 7, 4), ((1, "n", 4), (1, "n", 4)))),
    ],
)
def test_symbols_survive(expression: str, shape: Shape, expected: object, bench: Any, parse: Any) -> None:
    case = parse(f"a(5) | {expression}")
    assert bench.static(case, {"a": shape}) == expected


def test_a_symbol_cancels_before_elements_are_compared(bench: Any, parse: Any) -> None:
    with pytest.raises(Mismatch) as caught:
        bench.static(parse("a(5) b(5) | a.view_as(b)"), {"a": ("n", 784), "b": ("n", 30, 28)})
    assert caught.value.kind == "view"
    assert "(n, 30, 28)" in caught.value.message


def test_messages_name_the_sizes_that_meet(bench: Any, parse: Any) -> None:
    with pytest.raises(Mismatch) as caught:
        bench.static(parse("a(2,512) | nn.Linear(784, 10)(a)"))
    assert caught.value.kind == "linear"
    assert caught.value.message == "the input's last dimension has 512 features, expected 784"


def call_of(text: str, *values: Value) -> TorchCall:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call)
    target = ast.unparse(node.func)
    return TorchCall(node, target.rpartition(".")[2], target, "function", tuple(node.args), values, {}, {})


def test_hidden_arguments_hide_the_shape() -> None:
    assert factory_shape(call_of("torch.zeros(2, *rest)", Constant(2))) is None
    assert factory_shape(call_of("torch.zeros(2, *rest)", Constant(2), Constant(3))) == (2, 3)
    assert factory_shape(call_of("torch.zeros(2, **options)", Constant(2))) is None
    assert factory_shape(call_of("torch.zeros(n)", UNKNOWN)) is None
    assert factory_shape(call_of("torch.zeros(n)", Number(symbol="n"))) == ("n",)
    assert factory_shape(call_of("torch.zeros(n, 3)", UNKNOWN, Constant(3))) == (None, 3)


def test_unknown_operations_and_operands() -> None:
    known = Tensor(shape=(2, 3))
    assert call_shape(call_of("torch.no_such_operation(x)", known)) is None
    assert call_shape(call_of("torch.relu(x)", Tensor())) is None
    assert call_shape(call_of("torch.relu(x)", UNKNOWN)) is None
    assert call_shape(call_of("torch.sum(x, dim)", known, UNKNOWN)) is None
    assert call_shape(call_of("torch.cat(x)", Sequence("list", None, known))) is None


def test_operators() -> None:
    left = Tensor(shape=("n", 3))
    assert operator_shape("add", left, Constant(1)) == ("n", 3)
    assert operator_shape("mul", Number(), left) == ("n", 3)
    assert operator_shape("add", left, UNKNOWN) is None
    assert operator_shape("matmul", left, Tensor(shape=(3, 4))) == ("n", 4)
    assert operator_shape("add", Constant(1), Constant(2)) is None
    with pytest.raises(Mismatch):
        operator_shape("matmul", left, Tensor(shape=(4, 4)))


def test_attributes_and_sizes() -> None:
    assert attribute_shape((2, 3, 4), "mT") == (2, 4, 3)
    assert attribute_shape((2, 3), "T") == (3, 2)
    assert attribute_shape(("n",), "grad") == ("n",)
    assert attribute_shape((2,), "requires_grad") is None
    assert attribute_shape(None, "T") is None
    assert numel((2, 3)) == 6
    assert numel(("n", 3)) is None
    assert numel(()) == 1
    assert size_of((2, "n")) == (2, "n")
    assert size_of((2, "n"), -1) == "n"
    with pytest.raises(Mismatch):
        size_of((2, 3), 2)


def test_a_call_takes_microseconds(bench: Any, parse: Any) -> None:
    """It runs for every torch call of a file while its author types."""
    calls = [
        bench.call(parse(text))
        for text in (
            "a(2,3,9,9) | nn.Conv2d(3, 8, 3, padding=1)(a)",
            "a(2,3,4) | a.view(6, -1)",
            "a(2,3) b(3) | torch.add(a, b)",
            "a(2,3) | torch.relu(a)",
        )
    ]
    start = time.perf_counter()
    for _ in range(500):
        for call in calls:
            call_shape(call)
    assert (time.perf_counter() - start) / 2000 < 200e-6
