"""What a forecast comes to: the words of the worker as users read them, in JSON and in numbers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Forecast, Plan, RunOptions
from drygrad.dryrun.report import target_name
from drygrad.dryrun.result import Result
from drygrad.dryrun.what_if.exploring import Table
from drygrad.gpus import GPUS, Gpu

_UNFINISHED = ("deadline", "out-of-memory")
"""How runs end that would have needed more time or memory."""
_CONTEXT = 500 << 20
"""What CUDA itself is taken to need, where the GPU is not known."""


def asked_for(options: RunOptions, gpu: Gpu | None) -> RunOptions:
    """Return the conditions of a forecast: those of a run, for a simulated GPU and without experiments."""
    return replace(options, device="sim", forecast=Forecast(gpu), experiments=None, memory_limit=None)


def forecast_of(record: Record) -> Mapping[str, Any] | None:
    """Return what the worker has told; None where it came to nothing."""
    told = record.result.data.get("forecast")
    return cast("Mapping[str, Any]", told) if isinstance(told, Mapping) else None


def is_bound(record: Record) -> bool:
    """Say whether more may be needed than is told: the program was not followed to its end."""
    return record.result.outcome != "passed"


async def forecast_after(record: Record, run: Callable[[Plan], Awaitable[Result]]) -> Record:
    """Return the record of a run that has ended for want of memory or of time with what all of it would take."""
    options = record.plan.options
    if record.result.outcome not in _UNFINISHED or record.result.device != "sim" or options.forecast is not None:
        return record
    gpu = Gpu(size(options.gpu_memory), options.gpu_memory) if options.gpu_memory else None
    result = await run(replace(record.plan, options=asked_for(options, gpu)))
    followed = replace(record, result=result)
    told = forecast_of(followed)
    if told is None or not told["peak_allocated"]:
        return record
    note = _noted(followed, told)
    return replace(record, result=replace(record.result, notes=(*record.result.notes, note)))


def _noted(record: Record, told: Mapping[str, Any]) -> str:
    peak, at_least = told["peak"], "at least " if is_bound(record) else ""
    where = f" at line {peak['line']}" if peak and peak["path"] == str(record.plan.path) else ""
    allocated, reserved = size(told["peak_allocated"]), size(told["peak_reserved"])
    return f"forecast: {at_least}{allocated} allocated at the peak{where}, {reserved} reserved; see `drygrad forecast`"


def size(count: int) -> str:
    """Write a number of bytes with its unit."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.2f} GiB" if amount < 10 else f"{amount:.1f} GiB"


def roomy(forecast: Mapping[str, Any]) -> list[Gpu]:
    """Return the GPUs that have room for it, the smallest first."""
    needed = int(forecast["peak_reserved"]) + _CONTEXT
    return sorted((gpu for gpu in GPUS if gpu.memory >= needed), key=lambda gpu: gpu.memory)


NOTHING = Table()


def forecast_json(record: Record, path: str, what_if: Table = NOTHING) -> dict[str, Any]:
    """Return a forecast as machines read it."""
    result, told = record.result, forecast_of(record)
    plan = record.plan.options.forecast
    others = {"what_if": [row.as_json(path) for row in what_if.rows], "untraced": what_if.untraced}
    return {
        "target": target_name(path, record.plan.target),
        "outcome": result.outcome,
        "reason": result.reason,
        "gpu": plan.gpu.as_wire() if plan and plan.gpu else None,
        "inputs": [{"name": i.name, "value": i.value, "source": i.source} for i in result.inputs],
        "seconds": result.seconds,
        "forecast": None if told is None else {**told, "lower_bound": is_bound(record), **others},
        "notes": list(result.notes),
        "torch": result.torch,
    }
