"""``drygrad forecast``: what a function or a script takes on a GPU, traced without memory and arithmetic."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from drygrad.dryrun.forecasting import forecast_json
from drygrad.dryrun.memory_plot import memory_plot
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Missing
from drygrad.dryrun.plot_png import as_png
from drygrad.dryrun.report import missing_json, target_name
from drygrad.dryrun.short_forecast import forecast_of
from drygrad.dryrun.what_if.exploring import Table
from drygrad.gpus import Gpu, UnknownGpu, gpu_named
from drygrad.walk import Projects

from .errors import Failure, complain
from .formats import wants_colour
from .formats.forecast import block
from .formats.what_if import table
from .run_files import File, files_of
from .run_progress import Progress, drawing
from .running import Runner
from .terminal import coloured, plain

VERSION = 1


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status: 1 where it does not fit on the GPU that was named."""
    projects = Projects()
    file = the_one(files_of(arguments, projects))
    for problem in (str(problem) for project in projects.all for problem in project.problems):
        complain(problem)
    outcomes, what_if = asyncio.run(_outcomes(file, arguments))
    if arguments.memory_plot is not None:
        _draw(file, outcomes, arguments.memory_plot)
    if arguments.output_format == "json":
        told = [entry(file, outcome, what_if) for outcome in outcomes]
        sys.stdout.write(json.dumps({"version": VERSION, "forecasts": told}, indent=1) + "\n")
    else:
        colour = wants_colour(sys.stdout)
        text = "\n".join(text_of(file, outcome, what_if, colour=colour) for outcome in outcomes)
        sys.stdout.write(coloured(text) if colour else plain(text))
    return _status(outcomes)


def the_one(files: Iterable[File]) -> File:
    """Return the one file that a forecast is made of. Failure where there are several, or none."""
    given = [*files]
    if len(given) != 1:
        raise Failure("a forecast covers one function or one script; name it")
    return given[0]


def _gpu(name: str | None) -> Gpu | None:
    try:
        return gpu_named(name) if name else None
    except UnknownGpu as error:
        raise Failure(str(error)) from error
    except ValueError as error:
        raise Failure(f"--gpu: {error}") from error


Forecasts = tuple[list[Record | Missing], Table]


async def _outcomes(file: File, arguments: argparse.Namespace) -> Forecasts:
    runner = Runner(arguments)
    try:
        async with drawing(wanted=arguments.progress) as progress:
            return await forecast_by(runner, file, arguments, progress)
    finally:
        await runner.close()


async def forecast_by(runner: Runner, file: File, arguments: argparse.Namespace, progress: Progress) -> Forecasts:
    """Trace a file's function or script; with what could be different, where that is asked for. Failure."""
    gpu = _gpu(arguments.gpu or file.project.runs.gpu)
    target = next((each for each in file.targets if not file.whole or each.function is None), None)
    if target is None:
        raise Failure(f"{file.shown} runs nothing by itself: name a function, as in {file.shown}::NAME")
    progress.expect(1)
    progress.begin(target_name(file.shown, target))
    found = await runner.forecast(file, target, gpu, progress)
    first = found[0]
    if not arguments.what_if or isinstance(first, Missing):
        return found, Table()
    return found, await runner.what_if(file, first, progress)


def entry(file: File, outcome: Record | Missing, what_if: Table) -> dict[str, object]:
    """Return a forecast as machines read it."""
    if isinstance(outcome, Missing):
        return {**missing_json(outcome, file.shown), "forecast": None}
    return forecast_json(outcome, file.shown, what_if)


def text_of(file: File, outcome: Record | Missing, what_if: Table, *, colour: bool) -> str:
    """Return a forecast for people."""
    if isinstance(outcome, Missing):
        return f"{target_name(file.shown, outcome.target)}: no forecast: {outcome.message}\n"
    told = block(outcome, file.shown, file.source.lines, coloured=colour)
    return told + (table(what_if, forecast_of(outcome) or {}) if what_if.rows or what_if.untraced else "")


def _draw(file: File, outcomes: Iterable[Record | Missing], path: Path) -> None:
    """Draw the forecast that needs most. Failure where the file cannot be written."""
    told = [(one, drawn) for one in outcomes if isinstance(one, Record) and (drawn := forecast_of(one)) is not None]
    if not told:
        return
    record, most = max(told, key=lambda each: each[1]["peak_reserved"])
    asked = record.plan.options.forecast
    gpu = asked.gpu.name if asked and asked.gpu else None
    svg = memory_plot(most, target_name(file.shown, record.plan.target), gpu)
    try:
        path.write_bytes(as_png(svg) if path.suffix == ".png" else svg.encode())
    except OSError as error:
        raise Failure(f"--memory-plot: {error}") from error


def _status(outcomes: list[Record | Missing]) -> int:
    told = [forecast_of(outcome) if isinstance(outcome, Record) else None for outcome in outcomes]
    if not all(told):
        return 2
    return int(any(one is not None and one["fits"] is False for one in told))
