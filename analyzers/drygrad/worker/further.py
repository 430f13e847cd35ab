"""What a run does beyond one call: a second one, that finds what the first has left behind, and batches of loaders.

A run that is to try a repair goes so far where one call does not come to the repaired statement. What it sees there
is no claim: the program may never do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

_DEPTH, _MOST = 3, 4


def go_on(call: Callable[[], Any], returned: Any) -> None:
    """Call the target once more, and take a batch from each loader, or a sample of each dataset, that it gave."""
    call()
    for position, source in enumerate(_sources(returned, _DEPTH)):
        if position == _MOST:
            return
        if isinstance(source, (DataLoader, IterableDataset)):
            next(iter(cast("Any", source)), None)
        elif len(source):
            source[0]


def with_gradients(named: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of which the floating tensors require grad."""
    return {name: with_gradient(value) for name, value in named.items()}


def with_gradient(value: Any) -> Any:
    """Return a floating tensor as a leaf that requires grad, anything else as it is."""
    is_floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.detach().clone().requires_grad_() if is_floating else value


def _sources(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, (DataLoader, Dataset)):
        yield value
    elif depth and isinstance(value, (list, tuple, dict)):
        parts = cast("dict[Any, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        for part in parts:
            yield from _sources(part, depth - 1)
