"""Copies of a target's inputs, so that calls do not disturb one another: with other values, or with wider numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from drygrad.worker.copying import whole_copy
from drygrad.worker.experiments.bench import Inputs, modules
from drygrad.worker.experiments.held import Held, held_tensors
from drygrad.worker.experiments.relation import NotTried
from drygrad.worker.reading import quietly


class Copies:
    """The inputs as they are; every call gets a copy of its own, modules with their state included."""

    def __init__(self, given: Inputs) -> None:
        self.given = given
        self.held: list[Held] = held_tensors(given.names, given.values)
        asking = (*(held.tensor for held in self.held), *(p for _, p in parameters(given)))
        self.asked = any(tensor.requires_grad for tensor in asking)
        """Whether the program asks for the gradient of something."""
        self.with_gradients = True
        """Whether the gradients of all inputs are asked for where the program asks for none."""

    def inputs(self, values: Mapping[int, torch.Tensor], dtype: torch.dtype | None = None) -> Inputs:
        """Return a copy with other values in place of some tensors, by their identity. Raises NotTried.

        With a ``dtype``, which is float64 or float16, all floats have it, those of the modules included.
        """
        memo: dict[int, Any] = {}
        for held in self.held:
            memo[id(held.tensor)] = self._fresh(values.get(id(held.tensor), held.tensor), held.tensor, dtype)
        whole = self.given
        if getattr(whole.function, "__self__", None) is None and not isinstance(whole.function, torch.nn.Module):
            memo[id(whole.function)] = whole.function  # functions that torch has compiled refuse to be copied
        try:
            parts: Any = whole_copy((whole.function, whole.owner, whole.positional, whole.named), memo)
        except Exception as error:
            raise NotTried(f"its inputs cannot be copied: {type(error).__name__}") from error
        function, owner, positional, named = parts
        given = replace(whole, function=function, owner=owner, positional=positional, named=named)
        for module in modules(given) if dtype is not None else ():
            (module.double if dtype is torch.float64 else module.half)()  # unlike ``to``, these spare complex numbers
        return given

    def _fresh(self, value: torch.Tensor, like: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
        with quietly():
            new = value.detach().clone()
            new = new.to(dtype) if dtype is not None and new.is_floating_point() else new
        wants = like.requires_grad or (self.with_gradients and not self.asked)
        return new.requires_grad_() if wants and new.is_floating_point() else new


def parameters(given: Inputs) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the parameters of the modules among the inputs, as the target writes them."""
    for name, value in zip(given.names, given.values):
        if isinstance(value, torch.nn.Module):
            yield from value.named_parameters(name)


def gradients(given: Inputs) -> list[tuple[str, torch.Tensor]]:
    """Return the gradients that a call has left to the inputs, with the names of these."""
    held = ((one.name, one.tensor) for one in held_tensors(given.names, given.values))
    return [(name, tensor.grad) for name, tensor in (*parameters(given), *held) if tensor.grad is not None]
