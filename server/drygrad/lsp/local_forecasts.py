"""Forecasts by worker processes of this machine, as the command line makes them."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drygrad.dryrun.conversation import made_result
from drygrad.dryrun.forecast_finding import finding_of
from drygrad.dryrun.forecasting import asked_for, forecast_json, is_bound
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.memory_plot import memory_plot
from drygrad.dryrun.merge import Record, applied
from drygrad.dryrun.plan import Missing, Plan, RunOptions
from drygrad.dryrun.report import missing_json, target_name
from drygrad.dryrun.result import Result
from drygrad.dryrun.short_forecast import forecast_of
from drygrad.dryrun.what_if.exploring import Table, explore
from drygrad.gpus import Gpu, gpu_named
from drygrad.lsp.dry_run_service import RunSettings
from drygrad.lsp.forecasted import Forecasted
from drygrad.lsp.shifting import Moves
from drygrad.settings import Settings
from drygrad.static.source import Source

CarryOut = Callable[[Plan], Awaitable[Result]]


@dataclass(frozen=True)
class Judged:
    """What is kept of a forecast to say whether it is true of other texts."""

    record: Record
    settings: Settings


def conditions(options: RunOptions, how: RunSettings) -> RunOptions:
    """Return the conditions of a run as those of a forecast, for the GPU that is set."""
    return asked_for(options, gpu_of(how))


def gpu_of(how: RunSettings) -> Gpu | None:
    """Return the GPU that forecasts are made for."""
    return gpu_named(how.gpu) if how.gpu else None


async def forecasted(record: Record, how: RunSettings, table: Table | None = None) -> Forecasted:
    """Return what a run without memory and arithmetic has told."""
    told = forecast_of(record)
    shown = told if told is not None and told["peak_allocated"] else None
    asked = record.plan.options.forecast
    return Forecasted(
        record.run_id,
        record.plan.path,
        record.result,
        shown,
        asked.gpu if asked else None,
        table,
        is_bound(record),
        _why(record) if shown is None or is_bound(record) else None,
        await in_turn(finding_of, record, table or Table(), how.settings) if shown is not None else (),
        files=record.files,
        report=_report(record, table),
        record=Judged(record, how.settings),
    )


def without(missing: Missing, path: Path, how: RunSettings) -> Forecasted:
    """Return that there is no forecast for want of inputs."""
    result = made_result("no-inputs", {"device": how.device}, missing.message)
    own: dict[str, Any] = {"forecast": None, "path": str(path), "lines": {}, "explored": False, "plot": None}
    report = {**missing_json(missing, str(path)), **own}
    return Forecasted("", path, result, why=missing.message, report=report)


async def with_what_if(
    forecast: Forecasted, how: RunSettings, carry_out: CarryOut, on_phase: Callable[[str], None]
) -> Forecasted:
    """Return a forecast with each change traced that could save memory."""
    if forecast.told is None or not isinstance(forecast.record, Judged):
        return forecast
    record = forecast.record.record
    done = itertools.count(1)

    async def counted(plan: Plan) -> Result:
        result = await carry_out(plan)
        on_phase(f"what if: {next(done)} traced")
        return result

    on_phase("what if")
    return await forecasted(record, how, await explore(record, counted))


def applied_to(forecast: Forecasted, source: Source) -> Forecasted | None:
    """Return a forecast as it speaks of another text; None where what was followed is not the same there."""
    if not isinstance(forecast.record, Judged):
        return None
    record, settings = forecast.record.record, forecast.record.settings
    now = applied(record, source)
    if now is None:
        return None
    there = forecast.moved(Moves(record.plan.source, source))
    now = replace(now, result=replace(now.result, data={**now.result.data, "forecast": there.told}))
    findings = finding_of(now, there.table or Table(), settings) if there.told is not None else ()
    return replace(there, findings=findings)


def _why(record: Record) -> str:
    """Return why a program was not followed to its end, or takes no memory."""
    result = record.result
    if result.error is not None:
        return f"{result.error.type}: {result.error.message}".partition("\n")[0]
    return result.reason or ("it makes no tensors" if result.outcome == "passed" else result.outcome)


def _report(record: Record, table: Table | None) -> Mapping[str, Any]:
    """Return all of a forecast, for panels: as the command line prints it, with the lines that it names."""
    path, source = str(record.plan.path), record.plan.source
    told = forecast_json(record, path, table or Table())
    forecast: Mapping[str, Any] = told["forecast"] or {}
    rows: list[Mapping[str, Any]] = [row for name in ("by_line", "tensors") for row in forecast.get(name, ())]
    bound: Mapping[str, Any] = forecast.get("time") or {}
    rows += bound.get("lines", ())
    named: set[int] = {row["line"] for row in rows if row["path"] == path and row["line"] is not None}
    lines = {str(line): source.line_text(line).strip() for line in sorted(named) if line <= len(source.lines)}
    own: dict[str, Any] = {"path": path, "lines": lines, "explored": table is not None}
    return {**told, **own, "plot": _plot(record) if forecast.get("over_time") else None}


def _plot(record: Record) -> str:
    """Return the picture of a forecast, which stands below its name in panels."""
    asked, told = record.plan.options.forecast, forecast_of(record)
    name = target_name(record.plan.path.name, record.plan.target)
    return memory_plot(told or {}, name, asked.gpu.name if asked and asked.gpu else None)
