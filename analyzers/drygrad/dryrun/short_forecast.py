"""What a dry run says of GPUs, in a line: how much of one it takes, and which have room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from drygrad.dryrun.inventions import is_invented
from drygrad.dryrun.merge import Record
from drygrad.gpus import GPUS, Gpu

_CONTEXT = 500 << 20
"""What CUDA itself is taken to need, where the GPU is not known."""
_NAMED, _NOTEWORTHY = 3, 1 << 30


@dataclass(frozen=True)
class Short:
    """What a run says of GPUs: the memory that all of it takes there, and which have room."""

    peak_allocated: int
    peak_reserved: int
    line: int | None
    fits: bool | None
    """Whether the GPU that was asked for has room; None where none was."""
    room: tuple[str, ...]
    """The GPUs that have room, the smallest first."""
    lower_bound: bool

    def sentence(self) -> str:
        """Say it in a line."""
        at_least, where = "at least " if self.lower_bound else "", f" on line {self.line}" if self.line else ""
        needs = f"{at_least}{size(self.peak_allocated)} allocated at the peak{where}"
        more = f", … ({len(self.room)} GPUs)" if self.room[_NAMED:] else ""
        fits = f"fits {', '.join(self.room[:_NAMED])}{more}" if self.room else "fits no GPU that drygrad knows"
        if self.fits is not None:
            fits = f"{'fits' if self.fits else 'does not fit'} the GPU asked for; {fits}"
        return f"{needs}, {size(self.peak_reserved)} reserved; {fits}"

    def as_json(self) -> dict[str, Any]:
        """Return it as machines read it."""
        return {**vars(self), "room": list(self.room)}

    @property
    def is_noteworthy(self) -> bool:
        """Whether there is a GPU that could lack the room."""
        return self.fits is False or self.lower_bound or self.peak_reserved >= _NOTEWORTHY


def short_forecast(record: Record) -> Short | None:
    """Return what a run says of GPUs: by its own allocations, or by the forecast that has followed it.

    None where it had inputs that were invented, or kept nothing on a GPU.
    """
    told, limit = forecast_of(record), record.plan.options.gpu_memory
    if told is not None and record.plan.options.forecast is None:
        peak = told["peak"]
        line = peak["line"] if peak and peak["path"] == str(record.plan.path) else None
        return _short(told["peak_allocated"], told["peak_reserved"], limit, line, lower_bound=told["lower_bound"])
    memory = cast("Mapping[str, Any]", record.result.data.get("memory") or {})
    reserved = memory.get("reserved")
    if record.result.outcome != "passed" or is_invented(record.plan) or not reserved:
        return None
    return _short(memory["peak_bytes"], reserved, limit, None, lower_bound=False)


def _short(allocated: int, reserved: int, limit: int | None, line: int | None, *, lower_bound: bool) -> Short:
    room = tuple(gpu.name for gpu in roomy(reserved))
    fits = None if limit is None else reserved <= limit
    return Short(allocated, reserved, line, fits, room, lower_bound)


def forecast_of(record: Record) -> Mapping[str, Any] | None:
    """Return what the worker has told; None where it came to nothing."""
    told = record.result.data.get("forecast")
    return cast("Mapping[str, Any]", told) if isinstance(told, Mapping) else None


def room_on(memory: int, told: Mapping[str, Any]) -> int:
    """Return how many bytes of a GPU's memory are left to torch beside what CUDA and NCCL take, by a forecast."""
    return max(0, memory - (told["context"] or 0))


def size(count: int) -> str:
    """Write a number of bytes with its unit."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1023.5:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.2f} GiB" if amount < 9.995 else f"{amount:.1f} GiB"


def roomy(reserved: int) -> list[Gpu]:
    """Return the GPUs that have room for so many bytes, the smallest first."""
    needed = reserved + _CONTEXT
    return sorted((gpu for gpu in GPUS if gpu.memory >= needed), key=lambda gpu: gpu.memory)
