"""Which sample of which dataset a batch's tensors were put together of."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

import torch
from torch.utils.data._utils.fetch import _MapDatasetFetcher  # pyright: ignore[reportPrivateUsage]

from drygrad.worker.explain.samples import Delivered, Key
from drygrad.worker.ledger import Held
from drygrad.worker.listening import Heard, Listening
from drygrad.worker.run import Instrument, Run

_BATCHES, _ENTRIES, _COPIES = 8, 32, 4


class Samples(Instrument):
    """Remembers of the last batches by what key a sample has each of their tensors."""

    name: ClassVar[str] = "samples"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._batches: deque[list[tuple[Key, Held]]] = deque(maxlen=_BATCHES)
        self._datasets: deque[Callable[[], Any]] = deque(maxlen=_BATCHES)
        self._listening = Listening(run)
        run.delivered = self._delivered

    def start(self) -> None:
        """Listen to what puts batches together."""
        self._listening.after(_MapDatasetFetcher, "fetch", self._fetched)

    def _fetched(self, heard: Heard) -> None:
        entries = [(key, self.run.held_of(tensor)) for key, tensor in _tensors((), heard.result)]
        self._batches.append([(key, held) for key, held in entries if held is not None])
        self._datasets.append(_reference(heard.args[0].dataset))

    def _delivered(self, tensor: torch.Tensor) -> Delivered | None:
        """Return the dataset that a tensor has come from, be it moved or converted since."""
        held: Held | None = self.run.held_of(tensor)
        for _ in range(_COPIES):
            if held is None:
                return None
            for reference, batch in zip(self._datasets, self._batches):
                key = next((key for key, other in batch if other is held), None)
                dataset = reference() if key is not None else None
                if key is not None and dataset is not None:
                    others = tuple(other for its, other in batch if its != key)
                    return Delivered(dataset, key, others)
            held = held.source
        return None

    def finish(self) -> None:
        """Listen no more."""
        self._listening.end()


def _reference(dataset: Any) -> Callable[[], Any]:
    """Return what finds a dataset as long as the program keeps it; never a list or another plain container."""
    try:
        return weakref.ref(dataset)
    except TypeError:
        return lambda: None


def _tensors(key: Key, value: object) -> Iterator[tuple[Key, torch.Tensor]]:
    """Yield the tensors of a batch with what leads to them."""
    if isinstance(value, torch.Tensor):
        yield key, value
    elif len(key) < 2 and isinstance(value, (list, tuple)):
        for number, item in enumerate(cast("list[object]", value)[:_ENTRIES]):
            yield from _tensors((*key, number), item)
    elif len(key) < 2 and isinstance(value, dict):
        for name, item in list(cast("dict[Any, object]", value).items())[:_ENTRIES]:
            yield from _tensors((*key, name), item)
