"""A forecast that does not fit as a finding: where room ends first, what holds the memory, what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from drygrad.dryrun.findings import Telling, kept
from drygrad.dryrun.forecast_lines import Held, held_by_line
from drygrad.dryrun.forecasting import is_bound
from drygrad.dryrun.inventions import claimed
from drygrad.dryrun.merge import Record
from drygrad.dryrun.result import Fault, Place
from drygrad.dryrun.short_forecast import forecast_of, room_on, size
from drygrad.dryrun.what_if.exploring import Row, Table
from drygrad.dryrun.what_if.variants import OTHER
from drygrad.gpus import Gpu
from drygrad.model import Finding, Fix
from drygrad.settings import Settings
from drygrad.static.rules.memory.out_of_memory import OutOfMemory

_LINES = 5
_CHANGES = 3
_SPOKEN_WITH_A_VOWEL = "AHLMR"


def finding_of(record: Record, table: Table, settings: Settings) -> tuple[Finding, ...]:
    """Return the finding of a forecast for a GPU that has no room for it; it yields to a comment as any other does."""
    told, asked = forecast_of(record), record.plan.options.forecast
    gpu = asked.gpu if asked is not None else None
    if told is None or gpu is None or told["refused"] is None:
        return ()
    plan, source = record.plan, record.plan.source
    telling = Telling(record.result, plan, settings, record.run_id)
    faults = claimed([_fault(record, told, gpu, table)], plan, record.result)
    found = (telling.finding(fault, source) for fault in faults)
    fixes = tuple(_fixes(table))
    forecast = (replace(one, status="possible", fixes=fixes) for one in found if one is not None)
    return tuple(kept(source, forecast, settings))


def _fault(record: Record, told: Mapping[str, Any], gpu: Gpu, table: Table) -> Fault:
    refused, path = told["refused"], str(record.plan.path)
    at = Place(refused["path"], refused["line"]) if refused["line"] is not None else None
    return Fault(
        OutOfMemory.code,
        _message(told, gpu, at_least=is_bound(record)),
        at,
        severity="warning",
        related=tuple(_related(told, path, table, record.plan.target.name_span.start.line)),
    )


def _message(told: Mapping[str, Any], gpu: Gpu, *, at_least: bool) -> str:
    refused = told["refused"]
    needed = f"{'at least ' if at_least else ''}{size(told['peak_reserved'])}"
    room = size(room_on(gpu.memory, told))
    return (
        f"forecast: needs {needed} of memory, but torch can use {room} of {with_article(gpu)}; "
        f"the first allocation that does not fit is {size(refused['bytes'])} for `{operation(refused)}`"
    )


def with_article(gpu: Gpu) -> str:
    """Name a GPU as in ``an H100-80GB`` and ``a V100-32GB``, by how its first letter is spoken."""
    if not gpu.arch:
        return "the GPU"
    return f"{'an' if gpu.name[:1] in _SPOKEN_WITH_A_VOWEL else 'a'} {gpu.name}"


def _related(told: Mapping[str, Any], path: str, table: Table, line: int) -> Iterator[tuple[str, Place]]:
    if told["refused"]["path"] != path:
        yield "the forecast starts here", Place(path, line)
    most = sorted(held_by_line(told, path).values(), key=lambda held: -held.bytes)[:_LINES]
    yield from ((f"{held_words(held)} at the peak", Place(path, held.line)) for held in most)
    helping = [row for row in table.rows if row.fits][:_CHANGES]
    yield from ((f"what if: {row.change}: {size(row.peak_reserved)}", Place(path, line)) for row in helping)


def held_words(held: Held) -> str:
    """Return what a line holds."""
    (kind, _), *others = held.kinds
    parts = ", ".join(f"{size(count)} of {name}" for name, count in held.kinds)
    return f"{size(held.bytes)} of {kind}" if not others else f"{size(held.bytes)} ({parts})"


def operation(row: Mapping[str, Any]) -> str:
    """Return the operation of an allocation as users call it."""
    return (str(row["operation"]).partition("::")[2] or str(row["operation"])).removeprefix("_")


def _fixes(table: Table) -> Iterator[Fix]:
    """Yield the changes of the text that were traced and fit, each once."""
    fitting = {row.edits: row for row in reversed(table.rows) if row.fits and row.edits}
    yield from (change_of(row) for row in reversed(fitting.values()))


def change_of(row: Row) -> Fix:
    """Return a change of the text; verified is what was traced, fits and has computed the same.

    Nothing is compared for changes to another training run.
    """
    tried = row.compared or row.results == OTHER
    return Fix(f"Use {row.change}", row.edits, "unsafe", verified=row.fits if tried or not row.fits else None)
