"""Programs for the simulated device that are executed twice: with memory, and without."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from typing import Any

import torch

from drygrad.worker.devices.sim import memory
from drygrad.worker.forecast.collectives import Collectives
from drygrad.worker.forecast.events import Site
from drygrad.worker.forecast.surface import patched
from drygrad.worker.forecast.unknown import Unknown
from drygrad.worker.forecast.virtual import Virtual


class Everything:
    """Hears of all memory that the device gives, and takes no note of it."""

    def taken(self, size: int, address: int, device: int) -> None:
        """Hear of memory."""

    def released(self, address: int) -> None:
        """Hear of its end."""

    def resized(self, size: int, address: int, device: int) -> None:
        """Hear of another size."""

    def used(self, address: int, stream: int) -> None:
        """Hear of memory that another stream uses."""


def _made(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        memory.take(tensor, tensor.get_device())


def _computed(*_: object) -> None:
    pass


def _nowhere() -> Site | None:
    return None


def executed(program: str, *, really: bool) -> dict[str, Any]:
    """Execute a program; return the most memory it had on the device, its variable ``result``, what was assumed."""
    gc.collect()
    memory.reset_peak()
    before = memory.allocated()
    virtual, unknown = Virtual(_made, _computed), Unknown(_nowhere)
    unknown.serve(virtual)
    Collectives(virtual).serve()
    names: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    memory.watcher = None if really else Everything()
    try:
        with nullcontext() if really else patched(virtual, unknown), nullcontext() if really else virtual:
            exec(compile(program, "<program>", "exec"), names)
        result = names.get("result")
    finally:
        memory.watcher = None
        del names
    assumed = sorted(what for _, what in unknown.assumptions)
    return {"peak": memory.max_allocated() - before, "result": result, "assumed": assumed}
