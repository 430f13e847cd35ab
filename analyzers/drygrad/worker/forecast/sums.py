"""Gradients that autograd adds up in place: where nobody watches its operations, as on the user's GPU.

Autograd adds the gradient of a second path to the first one's memory, where nobody else holds that; but not beneath a
dispatch mode, whose tensors might be anything. A forecast lives in one, and does here what would be done without it.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from typing import Any, Callable

import torch

_node: Any = torch._C._current_autograd_node
_count: Any = torch._C._storage_Use_Count  # pyright: ignore[reportAttributeAccessIssue]
_function: Any = torch.autograd.function.BackwardCFunction


class Sums:
    """Takes the sums of gradients, and leaves other sums alone; ``computed`` hears of them."""

    def __init__(self, computed: Callable[[Any, Any, Any], None]) -> None:
        self._computed = computed
        self._fewest: tuple[int, int, int] | None = None

    def __call__(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the first operand as the sum, where autograd would have written into it."""
        node = _node()
        if node is None or kwargs or len(args) != 2 or torch.is_grad_enabled() or isinstance(node, _function):
            return NotImplemented
        old, new = args
        alike = type(old) is type(new) is torch.Tensor and (old.shape, old.dtype) == (new.shape, new.dtype)
        if not alike or old.device != new.device or not _is_dense(old) or not self._is_free(old):
            return NotImplemented
        self._computed(func, args, kwargs)
        return old

    def _is_free(self, tensor: Any) -> bool:
        """Say whether nobody but autograd holds a tensor or its memory.

        How many references are those of the call itself depends on what is around it; the fewest that any sum has had
        are no others.
        """
        held = tensor._use_count(), _count(tensor.untyped_storage()._cdata), sys.getrefcount(tensor)
        before = self._fewest or held
        self._fewest = min(before[0], held[0]), min(before[1], held[1]), min(before[2], held[2])
        return held == self._fewest


def _is_dense(tensor: torch.Tensor) -> bool:
    """Say whether a tensor fills its memory, each place once, in whatever order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
