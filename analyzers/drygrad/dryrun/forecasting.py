"""What a forecast comes to: the words of the worker as users read them, in JSON and in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Forecast, RunOptions
from drygrad.dryrun.report import target_name
from drygrad.dryrun.what_if.exploring import Row
from drygrad.gpus import GPUS, Gpu

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


def roomy(forecast: Mapping[str, Any]) -> list[Gpu]:
    """Return the GPUs that have room for it, the smallest first."""
    needed = int(forecast["peak_reserved"]) + _CONTEXT
    return sorted((gpu for gpu in GPUS if gpu.memory >= needed), key=lambda gpu: gpu.memory)


def forecast_json(record: Record, path: str, what_if: Sequence[Row] = ()) -> dict[str, Any]:
    """Return a forecast as machines read it."""
    result, told = record.result, forecast_of(record)
    plan = record.plan.options.forecast
    rows = [row.as_json(path) for row in what_if]
    return {
        "target": target_name(path, record.plan.target),
        "outcome": result.outcome,
        "reason": result.reason,
        "gpu": plan.gpu.as_wire() if plan and plan.gpu else None,
        "inputs": [{"name": i.name, "value": i.value, "source": i.source} for i in result.inputs],
        "seconds": result.seconds,
        "forecast": None if told is None else {**told, "lower_bound": is_bound(record), "what_if": rows},
        "notes": list(result.notes),
        "torch": result.torch,
    }
