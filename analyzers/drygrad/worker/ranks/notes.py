"""What a rank does by itself that others may do, too: the files that it writes, and the batches that it trains on."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Callable

import torch

from drygrad.worker.loops import Batches, Loops
from drygrad.worker.ranks.naming import chain_here
from drygrad.worker.reading import at_hand, is_readable, quietly
from drygrad.worker.run import Run

_MOST = 8
"""So many batches of a loader are compared."""
_BYTES = 1 << 20


class Notes:
    """Takes notes in the process of a rank."""

    def __init__(self, run: Run, loops: Loops) -> None:
        self._run, self.loops = run, loops
        self.met = 0
        """How often it has met all other ranks."""
        self._writes: list[dict[str, Any]] = []
        self._loaders: dict[tuple[str, int], dict[str, Any]] = {}

    def install(self) -> None:
        """Take note of whole files that are written from now on, and of the batches of loaders."""
        self._listen_to_files()
        fetch: Callable[[Batches], Any] = Batches.__next__

        def __next__(batches: Batches) -> Any:
            value = fetch(batches)
            self._fetched(batches, value)
            return value

        Batches.__next__ = __next__  # type: ignore[method-assign]

    def reduced(self) -> None:
        """Hear that gradients of all ranks are averaged, of what was computed from the batch that came last."""
        if self.loops.fetching is not None:
            self._loader(self.loops.fetching)["trained"] = True

    def as_json(self) -> dict[str, Any]:
        """Return them as they are told."""
        return {"writes": self._writes, "loaders": [*self._loaders.values()]}

    def _listen_to_files(self) -> None:
        save: Callable[..., Any] = torch.save

        def torch_save(obj: Any, f: Any, *rest: Any, **named: Any) -> Any:
            if isinstance(f, (str, os.PathLike)):
                self._written(os.fspath(f))
            return save(obj, f, *rest, **named)

        torch.save = torch_save
        sys.addaudithook(self._heard)

    def _heard(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str) and given[1] == "wb":
            self._written(given[0])

    def _written(self, path: str) -> None:
        if path.startswith(os.devnull) or len(self._writes) >= 1000:
            return
        chain = chain_here(self._run.lines, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        if chain:
            self._writes.append({"path": os.path.realpath(path), "at": chain[-1], "met": self.met})

    def _loader(self, batches: Batches) -> dict[str, Any]:
        loader = batches.place
        key = (loader.path, loader.line) if loader is not None else ("", 0)
        if key not in self._loaders:
            data = getattr(batches, "_dataset", None)
            made = self._run.lines.place(self._run.loader_at(data)) if data is not None else None
            at = made or loader
            self._loaders[key] = {
                "at": [*at] if at is not None else None,
                "loop": [*loader] if loader is not None else None,
                "total": batches.total,
                "digests": [],
                "trained": False,
            }
        return self._loaders[key]

    def _fetched(self, batches: Batches, value: Any) -> None:
        digests: list[str] = self._loader(batches)["digests"]
        if len(digests) < _MOST:
            digests.append(_digest(value))


def _digest(batch: Any) -> str:
    digest = hashlib.sha256()
    with quietly():
        for tensor in _tensors(batch):
            digest.update(str((tensor.dtype, tensor.shape)).encode())
            flat = at_hand(tensor.detach()).contiguous().reshape(-1)[:_BYTES]
            data = bytearray(flat.numel() * flat.element_size())
            if data:
                torch.frombuffer(data, dtype=torch.uint8).copy_(flat.view(torch.uint8))
            digest.update(data)
    return digest.hexdigest()


def _tensors(batch: Any) -> Iterator[Any]:
    if is_readable(batch):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _tensors(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:  # pyright: ignore[reportUnknownVariableType]
            yield from _tensors(value)
