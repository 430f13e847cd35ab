"""What a forecast comes to: the words of the worker as users read them, in JSON and in numbers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Forecast, Plan, RunOptions
from drygrad.dryrun.report import target_name
from drygrad.dryrun.result import Result
from drygrad.dryrun.short_forecast import forecast_of, size
from drygrad.dryrun.what_if.exploring import Table
from drygrad.gpus import Gpu

_UNFINISHED = ("deadline", "out-of-memory")
"""How runs end that would have needed more time or memory."""


def asked_for(options: RunOptions, gpu: Gpu | None) -> RunOptions:
    """Return the conditions of a forecast: those of a run, for a simulated GPU and without experiments."""
    return replace(
        options, device="sim", forecast=Forecast(gpu, ranks=options.ranks), experiments=None, memory_limit=None
    )


def is_bound(record: Record) -> bool:
    """Say whether more may be needed than is told: not all of the program was followed, or not to its end."""
    told = forecast_of(record)
    return record.result.outcome != "passed" or (told is not None and bool(told.get("at_least")))


async def forecast_after(record: Record, run: Callable[[Plan], Awaitable[Result]], *, anyway: bool = False) -> Record:
    """Return the record of a run that has ended for want of memory or of time with what all of it would take.

    ``anyway``: that of a run that came to its end, too.
    """
    options = record.plan.options
    ended = anyway or record.result.outcome in _UNFINISHED
    if not ended or record.result.device != "sim" or options.forecast is not None:
        return record
    gpu = Gpu(size(options.gpu_memory), options.gpu_memory) if options.gpu_memory else None
    result = await run(replace(record.plan, options=asked_for(options, gpu)))
    followed = replace(record, result=result)
    told = forecast_of(followed)
    if told is None or not told["peak_allocated"]:
        return record
    whole = {**_without_flag(told), "lower_bound": is_bound(followed)}
    return replace(record, result=replace(record.result, data={**record.result.data, "forecast": whole}))


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
        "forecast": None if told is None else {**_without_flag(told), "lower_bound": is_bound(record), **others},
        "notes": list(result.notes),
        "torch": result.torch,
    }


def _without_flag(told: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what the worker says of its own part of ``lower_bound``."""
    return {name: value for name, value in told.items() if name != "at_least"}
