"""What autograd keeps, and what it passes on: one operand after the other is made to require grad."""

# pyright: basic

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import increment_version, saved_tensors_hooks

from probing.deciding import Observation, decide
from probing.samples import Sample

_NOT_RUN = (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError, IndexError, KeyError)


def outputs_of(result: Any) -> list[torch.Tensor] | None:
    """Return the tensors that a call gave; None where it gave something else."""
    results: list[Any] = list(result) if isinstance(result, (list, tuple)) else [result]
    if results and all(isinstance(each, torch.Tensor) and each.layout == torch.strided for each in results):
        return results
    return None


class Seen:
    """What was seen of an operation: who requires grad, what is kept then, what shares memory."""

    def __init__(self) -> None:
        self.grad: dict[tuple[str, str], list[Observation]] = defaultdict(list)
        self.kept: dict[tuple[str, str], list[Observation]] = defaultdict(list)
        self.view: list[Observation] = []

    def look(self, sample: Sample) -> None:
        """Run a call once for each operand that could require grad, in memory that is in order and that is not."""
        for name, tensor in sample.operands().items():
            if not (tensor.is_floating_point() or tensor.is_complex()):
                continue
            kept = [_watched(sample, name, layout) for layout in (torch.Tensor.clone, _scattered)]
            ordered, scattered = kept
            if ordered is None:
                continue
            requires, keeps = ordered
            for output, answer in requires.items():
                self.grad[_whole(name), output].append((sample.features, (answer,)))
            for place, answer in keeps.items():
                same = scattered is None or scattered[1].get(place, answer) == answer
                said = "always" if answer and same else "ordered" if answer else "never"
                self.kept[place, name].append((sample.features, (said,)))

    def memory(self, sample: Sample) -> None:
        """Note whether the result lives in the memory of the first operand."""
        shares: list[bool] = []
        for layout in (torch.Tensor.clone, _scattered):
            try:
                run = _laid_out(sample, layout)
                made = outputs_of(run.run())
            except _NOT_RUN:
                continue
            first = next(iter(run.operands().values()), None)
            if made is None or first is None or not first.numel():
                continue
            address = first.untyped_storage().data_ptr()
            shares += [each.untyped_storage().data_ptr() == address for each in made if each.numel()]
        if shares:
            said = "always" if all(shares) else "maybe" if any(shares) else "never"
            self.view.append((sample.features, (said,)))

    def rows(self) -> dict[str, Any]:
        """Return what is worth writing down."""
        grad = {f"{name} {output}": decide(seen) for (name, output), seen in sorted(self.grad.items())}
        kept = {f"{place} {name}": decide(seen, ranks=True) for (place, name), seen in sorted(self.kept.items())}
        return {
            "grad": grad,
            "kept": {key: value for key, value in kept.items() if value != "never"},
            "view": decide(self.view),
        }


def _whole(name: str) -> str:
    return name.partition(".")[0]


def _scattered(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy whose memory is not in order."""
    if tensor.ndim > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


def _laid_out(sample: Sample, layout: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
    return sample.changed(lambda _, value: layout(value.detach()) if isinstance(value, torch.Tensor) else value)


def _watched(
    sample: Sample, name: str, layout: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[dict[str, bool], dict[str, bool]] | None:
    """Run a call with one operand that requires grad: which outputs then require it, and what is kept."""
    plain = _laid_out(sample, layout)
    run = plain.changed(lambda at, value: _recorded(value) if at == name else value)
    packed: list[torch.Tensor] = []
    try:
        with saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            made = outputs_of(run.run())
    except _NOT_RUN:
        return None
    if made is None:
        return None
    operands = run.operands()
    requires = {f"out{index}": each.requires_grad for index, each in enumerate(made)}
    places = {at: tensor for at, tensor in operands.items() if tensor.numel()}
    for index, each in enumerate(made):
        if each.numel() and not any(_same_memory(each, operand) for operand in operands.values()):
            places[f"out{index}"] = each
    return requires, {place: _bumps(tensor, packed) for place, tensor in places.items()}


def _recorded(tensor: torch.Tensor) -> torch.Tensor:
    """Return a result that requires grad: no leaf, so that in-place forms may write to it."""
    leaf = tensor.detach().requires_grad_()
    return torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype).copy_(leaf)


def _same_memory(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def _bumps(tensor: torch.Tensor, packed: list[torch.Tensor]) -> bool:
    """Say whether a write to a tensor would be noticed by what was kept: they count versions together."""
    before = [each._version for each in packed]
    increment_version(tensor.detach())
    return any(each._version != old for each, old in zip(packed, before, strict=True))
