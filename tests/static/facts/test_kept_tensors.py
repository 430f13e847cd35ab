"""What is said to be kept for backward is what backward misses, for every operation of torch's own database."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from operator_programs import Program, programs
from torch.autograd.graph import increment_version

from drygrad.static.facts.events import InplaceWrite
from drygrad.static.facts.module import ModuleFacts

pytestmark = pytest.mark.slow


@cache
def answers() -> dict[str, list[tuple[str, bool, bool]]]:
    """Return by operation which write to which tensor is said to be missed by backward, and is."""
    found: dict[str, list[tuple[str, bool, bool]]] = defaultdict(list)
    for program in programs():
        if program.form in ("function", "method", "in place"):
            found[f"{program.operator} {program.form}"] += _compared(program)
    return {operator: compared for operator, compared in found.items() if compared}


def _compared(program: Program) -> Iterator[tuple[str, bool, bool]]:
    tensors = program.tensors
    if not program.results[0].requires_grad or torch.float32 not in {t.dtype for t in tensors.values()}:
        return
    names = [name for name, tensor in tensors.items() if tensor.numel()]
    if program.is_tensor and program.results[0].numel():
        names.append("y")
    for name in names:
        missed = _is_missed(program, name)
        if missed is not None:
            yield f"{program.text}{name}", _is_said_to_be_missed(program, name), missed


def _is_said_to_be_missed(program: Program, name: str) -> bool:
    text = f"{program.text}with torch.no_grad():\n    {name}.zero_()\n"
    events = ModuleFacts(ast.parse(text), text).recording.events.values()
    writes = [event for event in events if isinstance(event, InplaceWrite) and event.operation == "zero"]
    return any(saved.records for write in writes for saved in write.saved)


def _is_missed(program: Program, name: str) -> bool | None:
    """Say whether backward raises where a tensor was written to; None where it cannot run in any case."""
    raised: list[bool] = []
    for writes in (False, True):
        scope: dict[str, Any] = {"torch": torch, **program.tensors}
        exec(f"y = {program.call}", scope)
        made = scope["y"]
        results: list[torch.Tensor] = [made] if program.is_tensor else list(made)
        if writes:
            increment_version(scope[name].detach())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _backward([each for each in results if each.requires_grad])
        except RuntimeError as error:
            raised.append("modified by an inplace operation" in str(error))
            if not writes:
                return None
        else:
            raised.append(False)
    return raised[1]


def _backward(results: list[torch.Tensor]) -> None:
    torch.autograd.backward(results, [torch.ones_like(each) for each in results])


def test_no_write_is_accused_that_backward_does_not_miss() -> None:
    accused = [(text, said) for rows in answers().values() for text, said, missed in rows if said and not missed]
    assert accused == []


def test_what_is_kept_is_known_of_nearly_all_operations() -> None:
    known = {name: all(said == missed for _, said, missed in rows) for name, rows in answers().items()}
    print(f"{sum(known.values())} of {len(known)}", [name for name, right in known.items() if not right])
    assert sum(known.values()) >= 0.95 * len(known)
