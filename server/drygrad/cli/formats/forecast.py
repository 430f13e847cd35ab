"""A forecast for people: the peak and whether it fits, what makes it, which lines and tensors, what was assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from drygrad.cli.inspection import shown_path
from drygrad.cli.terminal import one_line, painted
from drygrad.dryrun.forecasting import is_bound
from drygrad.dryrun.merge import Record
from drygrad.dryrun.report import target_name
from drygrad.dryrun.short_forecast import forecast_of, roomy, size
from drygrad.gpus import Gpu

_LINES = 10
_LABEL = 11
_SOURCE = 56
_NAMED = 3
_WAITS = 3
_MATTERS = 0.01
"""The part of a bound from which a copy to the GPU is told."""
_COPIES = {"h2d": "copied to the GPU", "d2h": "copied to the host"}
Row = Mapping[str, Any]


def block(record: Record, shown: str, lines: Sequence[str], *, coloured: bool) -> str:
    """Return a forecast as lines of a terminal."""
    return "\n".join(one_line(line) for line in _Block(record, shown, lines, coloured=coloured).lines()) + "\n"


class _Block:
    def __init__(self, record: Record, shown: str, lines: Sequence[str], *, coloured: bool) -> None:
        self._record, self._shown, self._source, self._coloured = record, shown, lines, coloured
        self._told = forecast_of(record)

    def lines(self) -> Iterator[str]:
        """Yield the lines."""
        record, result = self._record, self._record.result
        until = "" if result.outcome == "passed" else f" until it ended: {result.reason or result.outcome}"
        yield f"{target_name(self._shown, record.plan.target)}: traced in {result.seconds:.1f} s{until}"
        yield from _labelled("error", [*self._error()])
        yield from _labelled("inputs", [f"{i.name} = {i.value} ({i.source})" for i in result.inputs])
        told = self._told
        if told is not None and told["peak_allocated"]:
            yield from self._peak(told)
            yield from self._parts(told)
            yield from _labelled("at peak", [*self._rows(told["by_line"])])
            yield from _labelled("tensors", [*self._tensors(told["tensors"])])
            yield from self._time(told.get("time"))
            yield from _labelled("assumed", told["assumptions"])
        yield from _labelled("notes", result.notes)

    def _error(self) -> Iterator[str]:
        error = self._record.result.error
        if error is not None:
            where = f"{self._where({'path': error.at.path, 'line': error.at.line})}: " if error.at else ""
            yield f"{where}{error.type}: {error.message.partition(chr(10))[0]}"

    def _peak(self, told: Row) -> Iterator[str]:
        at_least = "at least " if is_bound(self._record) else ""
        where = self._event(told["peak"]) if told["peak"] else ""
        on_host = "; it keeps nothing on a GPU, so memory on the CPU was counted" if told["device"] == "cpu" else ""
        yield from _labelled("peak", [f"{at_least}{size(told['peak_allocated'])} allocated at {where}{on_host}"])
        asked = self._record.plan.options.forecast
        gpu = asked.gpu if asked else None
        reserved = f"{at_least}{size(told['peak_reserved'])} including what the allocator caches"
        yield from _labelled("reserved", [f"{reserved}: {self._fits(told, gpu)}"])

    def _fits(self, told: Row, gpu: Gpu | None) -> str:
        if gpu is None:
            names = [gpu.name for gpu in roomy(told["peak_reserved"])]
            return (
                f"fits on {', '.join(names[:_NAMED])}{' …' if names[_NAMED:] else ''}"
                if names
                else "fits on no GPU that drygrad knows"
            )
        refused = told["refused"]
        who = "CUDA and NCCL take" if told["communicators"] else "CUDA takes"
        room = f"{size(gpu.memory)} of {gpu.name}, of which {who} about {size(told['context'])}"
        if refused is None:
            return self._paint(f"fits into the {room}", "1;32")
        first = f"{size(refused['bytes'])} at {self._event(refused)}, with {size(refused['allocated'])} allocated"
        return self._paint(f"does not fit into the {room}; the first that does not: {first}", "1;31")

    def _parts(self, told: Row) -> Iterator[str]:
        yield from _labelled("by phase", [_joined(told["phases"])])
        yield from _labelled("by kind", [_joined(told["kinds"], ranked=True)])
        grows = told["grows"]
        if grows:
            more = f"{size(grows['bytes'])} more is kept after every step, most of it from {self._event(grows)}"
            yield from _labelled("grows", [more])

    def _rows(self, rows: Sequence[Row]) -> Iterator[str]:
        """Yield a line of the source each, with the bytes that it holds."""
        for row in rows[:_LINES]:
            text = self._text(row)
            yield f"{size(row['bytes']):>9}  {row['kind']:11} {self._where(row)}{'  ' + text if text else ''}"
        rest = sum(row["bytes"] for row in rows[_LINES:])
        if rest:
            yield f"{size(rest):>9}  of {len(rows) - _LINES} more"

    def _tensors(self, rows: Sequence[Row]) -> Iterator[str]:
        for row in rows:
            name = f" `{row['name']}`" if row["name"] else ""
            made = f"{row['kind']:11}{name} of {self._event(row)}"
            kept = cast("Row | None", row["kept_by"])
            why = f", kept for the backward of {kept['operation']} in {self._where(kept)}" if kept else ""
            times = f"{row['count']}x " if row["count"] > 1 else ""
            yield f"{times + size(row['bytes']):>13}  {made}{why}"

    def _time(self, bound: Row | None) -> Iterator[str]:
        if bound is None:
            return
        small = f"; {bound['small_kernels']} of {bound['kernels']} kernels are too small to fill it"
        said = f"{bound['of']}: {bound['summary']}{small if bound['small_kernels'] else ''}"
        least = _MATTERS * bound["seconds"]
        told = [wait for wait in bound["waits"] if wait["kind"] != "h2d" or wait["seconds"] >= least]
        yield from _labelled("time", [said, *map(self._stalled, told[:_WAITS])])

    def _stalled(self, wait: Row) -> str:
        """Say where the host waits, or what is copied."""
        times = f" ({wait['count']} times)" if wait["count"] > 1 else ""
        if wait["kind"] == "sync":
            return f"the host waits for the GPU on {self._where(wait)}{times}"
        return f"{size(wait['bytes'])} {_COPIES[wait['kind']]} on {self._where(wait)}{times}"

    def _event(self, row: Row) -> str:
        operation = str(row["operation"]).partition("::")[2] or str(row["operation"])
        return f"{self._where(row)} ({operation}, {row['phase']})"

    def _where(self, row: Row) -> str:
        path, line = row["path"], row["line"]
        if line is None:
            return "no line of yours"
        if not isinstance(path, str) or Path(path) == self._record.plan.path:
            return f"line {line}"
        return f"{shown_path(path, beside=self._shown)}:{line}"

    def _text(self, row: Row) -> str:
        line, path = row["line"], row["path"]
        own = isinstance(line, int) and path == str(self._record.plan.path) and 0 < line <= len(self._source)
        text = self._source[line - 1].strip() if own else ""
        return text if len(text) <= _SOURCE else f"{text[: _SOURCE - 1]}…"

    def _paint(self, text: str, style: str) -> str:
        return painted(text, style) if self._coloured else text


def _joined(parts: Mapping[str, int], *, ranked: bool = False) -> str:
    items = sorted(parts.items(), key=lambda item: -item[1]) if ranked else parts.items()
    return ", ".join(f"{name} {size(count)}" for name, count in items if count)


def _labelled(label: str, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"  {'' if number else label:{_LABEL}} {line}"
