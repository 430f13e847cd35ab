"""The last batch of an epoch, where it is shorter than the others: many a program fails there only."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, Callable, Union

import torch
from torch.utils.data import RandomSampler, SequentialSampler

Rest = Union[Callable[[], Any], None]
"""Makes the last element of a loop; None where it is no other than the rest."""


def rest_of_loader(loader: Any) -> Rest:
    """Return what fetches the last batch of a loader that takes each sample of a dataset once."""
    size, sampler = getattr(loader, "batch_size", None), getattr(loader, "sampler", None)
    if size is None or getattr(loader, "drop_last", True) or type(sampler) not in (RandomSampler, SequentialSampler):
        return None
    if getattr(sampler, "replacement", False):
        return None
    try:
        count, taken = len(loader.dataset), len(sampler)  # pyright: ignore[reportArgumentType]
    except (TypeError, NotImplementedError):
        return None
    rest = count % size
    if count != taken or not rest or count <= size:
        return None

    def fetch() -> Any:
        from torch.utils.data._utils.fetch import _MapDatasetFetcher

        fetcher: Any = _MapDatasetFetcher(loader.dataset, True, loader.collate_fn, False)
        return fetcher.fetch([*range(count - rest, count)])

    return fetch


def rest_of(iterable: Any) -> Rest:
    """Return what gives the last part of a tensor that was split, or the last begin of a batch in a range."""
    if type(iterable) is range:
        whole = abs(iterable.stop - iterable.start) % abs(iterable.step) == 0
        return None if whole or not iterable else lambda: iterable[-1]
    if type(iterable) not in (list, tuple) or not iterable:
        return None
    parts: list[Any] = [iterable[0], iterable[-1]]
    if not all(isinstance(part, torch.Tensor) and part.dim() for part in parts):
        return None
    return None if len(parts[0]) == len(parts[1]) else lambda: iterable[-1]
