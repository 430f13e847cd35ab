"""The workers of a loader, all in this process: what their code sees and what it is given is what workers have."""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Callable

import torch
from torch.utils.data import dataloader as _loading
from torch.utils.data._utils import worker as _workers

from drygrad.worker.reading import quietly
from drygrad.worker.run import Run

_Kind: Any = _loading._DatasetKind
_info_of: Any = _workers.WorkerInfo
_next: Any = _loading._SingleProcessDataLoaderIter._next_data


def install(run: Run) -> None:
    """Let loaders that want workers load in this process, in the name of their workers."""
    loader: Any = _loading.DataLoader
    iterator: Callable[[Any], Any] = loader._get_iterator

    def _get_iterator(self: Any) -> Any:
        if not self.num_workers:
            return iterator(self)
        run.note("no DataLoader worker processes were started; the dataset ran in this process")
        return InWorkers(self)

    loader._get_iterator = _get_iterator
    loader.check_worker_number_rationality = _silent


def _silent(*_: Any) -> None:
    """How many processors this machine has is no matter of the program's."""


class InWorkers(_loading._SingleProcessDataLoaderIter):
    """Fetches each batch as the worker whose turn it is; a map-style dataset is asked by the first of them."""

    def __init__(self, loader: Any) -> None:
        _loading._BaseDataLoaderIter.__init__(self, loader)  # the next one's begins to fetch
        streams = self._dataset_kind == _Kind.Iterable
        self._infos = [self._info(loader, worker) for worker in range(self._num_workers if streams else 1)]
        for info in self._infos if callable(loader.worker_init_fn) else ():
            with _as_worker(info):
                _begin(loader.worker_init_fn, info)
        self._begin_fetching()

    def _info(self, loader: Any, worker: int) -> Any:
        """Return what a worker knows of itself. What a function changes in the beginning, it changes in a copy."""
        own = loader.worker_init_fn is not None and self._dataset_kind == _Kind.Iterable
        dataset = copy.copy(loader.dataset) if own else loader.dataset
        return _info_of(id=worker, num_workers=self._num_workers, seed=self._base_seed + worker, dataset=dataset)

    def _begin_fetching(self) -> None:
        self._turn, self._fetching = 0, [(info, self._fetcher(info)) for info in self._infos]

    def _fetcher(self, info: Any) -> Any:
        with _as_worker(info):
            kind = self._dataset_kind
            return _Kind.create_fetcher(kind, info.dataset, self._auto_collation, self._collate_fn, self._drop_last)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._begin_fetching()

    def _next_data(self) -> Any:
        while self._fetching:
            self._turn %= len(self._fetching)
            info, self._dataset_fetcher = self._fetching[self._turn]
            try:
                with _as_worker(info):
                    data = _next(self)
            except StopIteration:
                if self._dataset_kind != _Kind.Iterable:
                    raise
                del self._fetching[self._turn]
            else:
                self._turn += 1
                return data
        raise StopIteration


@contextmanager
def _as_worker(info: Any) -> Generator[None]:
    before = _workers._worker_info
    _workers._worker_info = info
    try:
        yield
    finally:
        _workers._worker_info = before


def _begin(function: Any, info: Any) -> None:
    """Call what the loader's workers begin with, whose seeds are none of this process."""
    generator, numpy = torch.default_generator, sys.modules.get("numpy")
    with quietly():
        states = generator.get_state(), random.getstate(), numpy and numpy.random.get_state()
        generator.manual_seed(info.seed)
    try:
        function(info.id)
    finally:
        with quietly():
            generator.set_state(states[0])
        random.setstate(states[1])
        if numpy is not None:
            numpy.random.set_state(states[2])
