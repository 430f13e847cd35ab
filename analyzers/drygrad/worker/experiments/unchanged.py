"""Evaluation leaves no trace: after it, parameters, buffers and modes are as they were before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, cast

import torch

from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.evaluated import Evaluated, require_forward
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Trace, agree, memory_of
from drygrad.worker.naming import binding_in
from drygrad.worker.reading import at_hand, is_readable, quietly
from drygrad.worker.run import Fault, Place


class EvaluationLeavesNoTrace(Relation):
    """Compares a module's state before and after a call in evaluation."""

    code: ClassVar[str] = "DG926"
    name: ClassVar[str] = "evaluation leaves no trace"
    rank: ClassVar[int] = 16

    def glance(self, given: Inputs) -> None:
        """Take nothing but the forward of a module."""
        require_forward(given)

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield where state is written to."""
        evaluated = Evaluated(bench)
        first = {name: _copy(tensor) for name, tensor in evaluated.module.named_parameters() if _is_value(tensor)}
        evaluated.call(bench.seed)  # what is made at the first call may stay
        evaluated.module.eval()
        before = {name: (tensor, first.get(name, _copy(tensor))) for name, tensor in _state(evaluated.module)}
        _, trace = evaluated.call(bench.seed)
        told: set[Place] = set()
        for name, after in _state(evaluated.module):
            held, copy = before.get(name, (None, None))
            if copy is None or held is None or agree(copy, _copy(after)):
                continue
            place = _writing(bench, evaluated, trace, name, after if after is held else None)
            if place is not None and place not in told:
                told.add(place)
                message = f"a call in eval mode changes `{name}` here; the next call sees the changed value"
                yield Fault(self.code, message, place, severity=evaluated.severity)
        if not told and any(part.training for part in evaluated.module.modules()):
            yield from _of_mode(bench, evaluated)


def _state(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters and buffers with floating values; those that count are left out."""
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if _is_value(tensor):
            yield name, tensor


def _is_value(tensor: torch.Tensor) -> bool:
    return is_readable(tensor) and tensor.is_floating_point()


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    with quietly():
        return at_hand(tensor).detach().clone()


def _writing(bench: Bench, evaluated: Evaluated, trace: Trace, name: str, written: torch.Tensor | None) -> Place | None:
    """Return the line that has written to a tensor, or bound the attribute anew. Raises NotTried where none has."""
    if written is not None:
        steps = (step for step in trace.steps if memory_of(written) in step.written)
        place = next((bench.run.lines.place(step.instruction) for step in steps), None)
    else:
        code = type(evaluated.module).forward.__code__
        place = binding_in(code, f"{code.co_varnames[0]}.{name}", bench.run.lines)
    if place is None and written is not None and isinstance(written, torch.nn.Parameter):
        return None  # it was written to at the first call alone
    if place is None:
        raise NotTried(f"`{name}` changes, but not at a line of the program")
    return place


def _of_mode(bench: Bench, evaluated: Evaluated) -> Iterator[Fault]:
    """Yield the fault of a module that is in training mode after a call in evaluation."""
    parts: dict[str, torch.nn.Module] = dict(cast("Any", evaluated.module).named_modules())
    part = next(name for name, module in parts.items() if module.training)
    code = type(evaluated.module).forward.__code__
    place = Place(code.co_filename, code.co_firstlineno)
    if not bench.run.lines.is_user(code):
        raise NotTried("a mode changes in code outside the program")
    what = f"`{part}`" if part else "the module"
    yield Fault(EvaluationLeavesNoTrace.code, f"after a call in eval mode, {what} is in training mode", place)
