"""What is claimed of results holds in torch, for every operation of torch's own database, in every form."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from operator_programs import Program, programs

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Sequence, Tensor

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Claim:
    """What is claimed of one result of a program, and what torch made."""

    program: Program
    claimed: Tensor
    real: torch.Tensor


@cache
def claims() -> tuple[Claim, ...]:
    """Return what is claimed of each result of each program."""
    return tuple(claim for program in programs() for claim in _claims(program))


def _claims(program: Program) -> Iterator[Claim]:
    value = ModuleFacts(ast.parse(program.text), program.text).globals["y"]
    count = len(program.results)
    if isinstance(value, Sequence) and value.items is not None:
        assert len(value.items) == count, program.text
        parts = value.items
    else:
        assert not isinstance(value, Tensor) or program.is_tensor, program.text
        parts = (value.element if isinstance(value, Sequence) else value,) * count
    for part, real in zip(parts, program.results, strict=True):
        yield Claim(program, part if isinstance(part, Tensor) else Tensor(), real)


def _shape_holds(claim: Claim) -> bool:
    shape, real = claim.claimed.shape, tuple(claim.real.shape)
    if shape is None:
        return True
    return len(shape) == len(real) and all(
        not isinstance(said, int) or said == size for said, size in zip(shape, real, strict=True)
    )


def test_no_shape_is_claimed_that_torch_does_not_give() -> None:
    wrong = [(c.program.text, c.claimed.shape, tuple(c.real.shape)) for c in claims() if not _shape_holds(c)]
    assert wrong == []


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


def test_most_of_the_results_have_a_shape_and_a_dtype() -> None:
    """The tests above would hold if nothing were claimed."""
    everything = [claim for claim in claims() if not claim.program.form.startswith("hidden")]
    shaped = sum(c.claimed.shape is not None and None not in c.claimed.shape for c in everything)
    typed = sum(c.claimed.dtype is not None for c in everything)
    recorded = sum(c.claimed.requires_grad is not None for c in everything)
    figures = {"shape": shaped, "dtype": typed, "requires_grad": recorded}
    print({what: f"{100 * count / len(everything):.1f} % of {len(everything)}" for what, count in figures.items()})
    assert min(figures.values()) >= 0.85 * len(everything)
