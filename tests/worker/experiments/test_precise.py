"""Precision suffices: a target is called with numbers of twice the width."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_harness import examined, line_of

from drygrad.worker.experiments.precise import PrecisionSuffices
from drygrad.worker.run import Fault

_FAR = "x=torch.randn(6, 50) * 0.01 + 900"
PAIRS = {
    "a variance as the difference of two squares": (
        _FAR,
        "v = x.square().mean(1) - x.mean(1).square()",
        "v = (x - x.mean(1, keepdim=True)).square().mean(1)",
        ("warning", "precision is lost here"),
    ),
    "a variance of what lies near 0, as long as it does": (
        "x=torch.randn(6, 50)",
        "v = x.square().mean(1) - x.mean(1).square()",
        "v = (x - x.mean(1, keepdim=True)).square().mean(1)",
        ("info", "where `x` lies far from 0, precision is lost here"),
    ),
    "distances from squares": (
        "x=torch.randn(8, 3)",
        "v = x.square().sum(1)[:, None] + x.square().sum(1) - 2 * x @ x.T",
        "v = (x[:, None] - x).square().sum(-1)",
        ("info", "where `x` lies far from 0, precision is lost here"),
    ),
    "an exponential minus one": (
        "x=torch.rand(5) * 1e-7",
        "v = torch.exp(x) - 1",
        "v = torch.expm1(x)",
        ("warning", "precision is lost here"),
    ),
    "a logarithm of one and a little": (
        "x=torch.rand(5) * 1e-7",
        "v = torch.log(1 + x)",
        "v = torch.log1p(x)",
        ("warning", "precision is lost here"),
    ),
    "roots that differ a little": (
        "x=torch.rand(5) * 1e6 + 1e6",
        "v = torch.sqrt(x + 1e-1) - torch.sqrt(x)",
        "v = 1e-1 / (torch.sqrt(x + 1e-1) + torch.sqrt(x))",
        ("warning", "precision is lost here"),
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_what_rounding_has_eaten_is_told_where_it_does(case: str, tmp_path: Path) -> None:
    given, broken, right, (severity, words) = PAIRS[case]
    program = "def f(x):\n    {}\n    return v\n"
    text = program.replace("{}", broken)
    (fault,) = examined(tmp_path, PrecisionSuffices, text, given)
    assert isinstance(fault, Fault)
    assert (line_of(text, fault), fault.code, fault.severity) == (broken, "DG934", severity)
    assert fault.message.startswith(words)
    assert examined(tmp_path, PrecisionSuffices, program.replace("{}", right), given) == []


HELD = {
    "what is 0 but for rounding": "v = x - torch.fft.irfft(torch.fft.rfft(x), n=x.shape[1])",
    "angles of many turns": "v = torch.sin(1e6 * x)",
    "weights that are sharp": "v = (1000 * x @ x.T).softmax(-1) @ x",
    "a matrix near a singular one": "v = torch.linalg.solve(x[:, :6] @ x[:, :6].T + 1e3, x)",
    "a norm by hand": "v = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + 1e-5).sqrt()",
    "noise": "v = x + torch.zeros_like(x)",
}


@pytest.mark.parametrize("case", HELD)
def test_what_is_steep_by_its_nature_holds(case: str, tmp_path: Path) -> None:
    program = f"def f(x):\n    {HELD[case]}\n    return v\n"
    assert examined(tmp_path, PrecisionSuffices, program, "x=torch.randn(6, 50)") == []


NOT_TRIED = {
    "return x.double().sum()": ("x=torch.randn(3).double()", "none of its inputs are float32"),
    "return x + torch.randn(3)": ("x=torch.randn(3)", "it draws random numbers"),
    "return (x / 49 * 49 == x).float() - 0.5 * x": (
        "x=torch.arange(1.0, 9.0)",
        "a comparison has a different outcome in float64",
    ),
}


@pytest.mark.parametrize("body", NOT_TRIED)
def test_what_float64_says_nothing_of_is_not_tried(body: str, tmp_path: Path) -> None:
    given, why = NOT_TRIED[body]
    assert examined(tmp_path, PrecisionSuffices, f"def f(x):\n    {body}\n", given) == why
