"""What is claimed of an operation's result holds in torch, for every operation of torch's own database."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from operator_programs import Program, programs

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Sequence, Tensor


@dataclass(frozen=True)
class Claim:
    """What is claimed of one result of a program, and what torch made."""

    program: Program
    claimed: Tensor
    real: torch.Tensor


@cache
def claims() -> tuple[Claim, ...]:
    """Return what is claimed of each result of each program."""
    return tuple(
        Claim(program, claimed, real)
        for program in programs()
        if program.form == "function"
        for claimed, real in zip(_claimed(program), program.results, strict=True)
        if isinstance(claimed, Tensor)
    )


def _claimed(program: Program) -> tuple[object, ...]:
    value = ModuleFacts(ast.parse(program.text), program.text).globals["y"]
    if isinstance(value, Sequence) and value.items is not None:
        return value.items
    return (value.element if isinstance(value, Sequence) else value,) * len(program.results)


def test_no_dtype_is_claimed_that_torch_does_not_give() -> None:
    known = [claim for claim in claims() if claim.claimed.dtype is not None]
    wrong = [(c.program.text, c.claimed.dtype, c.real.dtype) for c in known if str(c.real.dtype)[6:] != c.claimed.dtype]
    assert wrong == []


def test_no_requires_grad_is_claimed_that_torch_does_not_give() -> None:
    known = [claim for claim in claims() if claim.claimed.requires_grad is not None]
    wrong = [
        (c.program.text, c.claimed.requires_grad) for c in known if c.claimed.requires_grad != c.real.requires_grad
    ]
    assert wrong == []


def test_most_operators_have_a_dtype_and_say_whether_autograd_records_them() -> None:
    """The two tests above would hold if nothing were claimed."""
    assert len({c.program.operator for c in claims() if c.claimed.dtype is not None}) > 400
    assert len({c.program.operator for c in claims() if c.claimed.requires_grad}) > 350


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        ("torch.zeros(3, dtype=torch.float16).softmax(-1, torch.float32)", "float32"),
        ("torch.zeros(3, dtype=torch.float16).sum(dtype=torch.float64)", "float64"),
        ("torch.zeros(3, dtype=torch.float16).sum(dtype=unseen)", None),
        ("torch.zeros(3, dtype=torch.float16).mean(**unseen)", None),
        ("torch.arange(3) / 2", "float32"),
        ("torch.arange(3) // 2", "int64"),
        ("torch.arange(3) * 0.5", "float32"),
        ("torch.arange(3) * len(unseen)", None),
        ("torch.div(torch.arange(3), 2, rounding_mode='floor')", "int64"),
        ("torch.div(torch.arange(3), 2, rounding_mode=unseen)", None),
        ("torch.arange(3) * torch.tensor(0.5, dtype=torch.float64)", "float64"),
        ("torch.zeros(3, dtype=torch.float16) * torch.tensor(0.5)", "float16"),
        ("torch.zeros(3, dtype=torch.float16) + torch.zeros(3)", "float32"),
        ("torch.zeros(3, dtype=torch.int32) + torch.arange(3)", "int64"),
        ("torch.where(torch.arange(3) > 1, 1.0, 0.0)", "float32"),
        ("torch.where(torch.arange(3) > 1, torch.zeros(3, dtype=torch.float16), 0.0)", "float16"),
        ("torch.where(torch.arange(3) > 1)[0]", "int64"),
        ("torch.zeros(3, dtype=torch.complex64).real", None),
        ("torch.zeros(3).clamp(min=0)", "float32"),
        ("torch.nn.Embedding(10, 4)(torch.arange(3))", None),
        ("torch.max(torch.zeros(3, dtype=torch.float16), torch.zeros(3))", "float32"),
        ("torch.zeros(4).unique(return_counts=True)[1]", "int64"),
        ("torch.bucketize(unseen.float(), torch.zeros(3), out_int32=True)", None),
        ("torch.arange(3).add(1, out=torch.zeros(3))", "float32"),
    ],
)  # fmt: skip
def test_dtype(made: str, dtype: str | None) -> None:
    program = f"import torch\ny = {made}\n"
    value = ModuleFacts(ast.parse(program), program).globals["y"]
    assert (value.dtype if isinstance(value, Tensor) else None) == dtype
