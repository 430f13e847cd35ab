"""Traces what could be different, and puts what that saves into a table; finds the largest batch that fits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from drygrad.dryrun.forecast_lines import saved_by_line
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.result import Result
from drygrad.dryrun.what_if.equality import Equality
from drygrad.dryrun.what_if.variants import OTHER, ROUNDED, BatchSize, Variant, batch_size, variants
from drygrad.model import Edit

CarryOut = Callable[[Plan], Awaitable[Result]]
_LITTLE = 0.01
WITHIN = 120.0
"""Seconds after which no further change is traced."""
_COMPARING = 30.0
"""Seconds after which rows whose texts have not been compared stay without edits."""
_TRACES = 7
"""So many batch sizes are tried at most."""


@dataclass(frozen=True)
class Row:
    """A change, and what the program takes with it; ``saves`` counts reserved bytes, and may be negative."""

    change: str
    results: str
    peak_allocated: int
    peak_reserved: int
    saves: int
    fits: bool | None
    flops: float | None
    """How much is computed for as much data, as a multiple of what the program as it is computes."""
    seconds: float | None
    """The bound on its time for as much data, where the GPU is known."""
    batch: int | None = None
    edits: tuple[Edit, ...] = ()
    assumes: str | None = None
    """What its numbers take for granted."""
    compared: bool = False
    """Whether the edits were run with two samples, and computed the same."""
    saved: tuple[tuple[str, int, int], ...] = ()
    """By how much less lines hold at the peak: path, line and bytes."""

    def as_json(self, path: str) -> dict[str, Any]:
        """Return the row as machines read it."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("edits", "saved")},
            "by_line": [{"path": at, "line": line, "saves": count} for at, line, count in self.saved],
            "edits": [_edit(edit, path) for edit in self.edits],
        }


def _edit(edit: Edit, path: str) -> dict[str, Any]:
    start, end = ({"line": at.line, "column": at.column + 1} for at in (edit.span.start, edit.span.end))
    return {"path": path, "start": start, "end": end, "new_text": edit.new_text}


@dataclass(frozen=True)
class Table:
    """What could be different, the change that saves most first; ``untraced`` counts those for which time ran out."""

    rows: tuple[Row, ...] = ()
    untraced: int = 0


async def explore(record: Record, carry_out: CarryOut, seconds: float | None = WITHIN) -> Table:
    """Trace each change that could be for the program, for so many seconds."""
    base = told(record.result)
    if base is None or not base["peak_reserved"]:
        return Table()
    worth = await in_turn(lambda: list(variants(record, base["seen"])))
    begun = time.monotonic()
    first = [_largest_batch(record, base, carry_out), *(_row(v, base, carry_out) for v in worth if not v.elsewhere)]
    found, left = await _traced(first, seconds)
    # These take longest: the search for a batch size, whose traces follow each other, is not to wait for them.
    last = [_row(variant, base, carry_out) for variant in worth if variant.elsewhere]
    more, rest = await _traced(last, None if seconds is None else seconds - (time.monotonic() - begun))
    within = None if seconds is None else min(_COMPARING, seconds - (time.monotonic() - begun))
    rows = await compared([*found, *more], worth, Equality(record, base, carry_out), within, base, carry_out)
    return Table(tuple(sorted(rows, key=lambda row: (-row.saves, row.change))), left + rest)


async def compared(
    rows: Sequence[Row],
    worth: Sequence[Variant],
    equality: Equality,
    seconds: float | None,
    base: Mapping[str, Any],
    carry_out: CarryOut,
) -> list[Row]:
    """Return rows whose edits have computed what the text as it is computes, within the time that there is.

    Edits that rewrite expressions are offered only then; others stay, and say that they were not compared.
    """
    others = {variant.edits: variant.otherwise for variant in worth if variant.edits}
    late = {row.edits: _not_compared(row, others) for row in rows if row.edits in others and row.results != OTHER}

    async def one(row: Row) -> Row | None:
        by_worker = others[row.edits]
        in_parts = by_worker is not None and "accumulate" in by_worker.words
        same = await equality.of(row.edits, in_parts=in_parts, rounded=row.results == ROUNDED)
        if same is False:
            made = await _row(by_worker, base, carry_out) if by_worker is not None else replace(row, edits=())
            del late[row.edits]
            return made
        unproven = late.pop(row.edits)
        return unproven if same is None else replace(row, compared=True)

    first = sorted((row for row in rows if row.edits in late), key=lambda row: others[row.edits] is None)
    known, _ = await _traced([one(row) for row in first], seconds)
    return [*(row for row in rows if row not in first), *known, *late.values()]


def _not_compared(row: Row, others: Mapping[tuple[Edit, ...], Variant | None]) -> Row:
    return row if others[row.edits] is None else replace(row, edits=())


async def _traced(traces: Sequence[Coroutine[Any, Any, Row | None]], seconds: float | None) -> tuple[list[Row], int]:
    """Return the rows that come in time, and how many did not."""
    if not traces:
        return [], 0
    tasks = [asyncio.ensure_future(trace) for trace in traces]
    try:
        done, left = await asyncio.wait(tasks, timeout=seconds if seconds is None else max(0.0, seconds))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [row for row in (task.result() for task in done) if row is not None], len(left)


async def _row(variant: Variant, base: Mapping[str, Any], carry_out: CarryOut) -> Row | None:
    """Return what a variant comes to; None where it cannot be traced, or changes nothing."""
    now = told(await carry_out(variant.plan))
    if now is None and variant.otherwise is not None:
        return await _row(variant.otherwise, base, carry_out)
    if now is None or not all(now["changed"].get(word.partition(":")[0]) for word in variant.words):
        return None
    row = made_row(variant.title, variant.results, base, now, share=variant.share, edits=variant.edits)
    flops = row.flops * variant.passes if row.flops is not None else None
    row = replace(row, assumes=variant.assumes, flops=flops)
    if _matters(row, base):
        return row
    return await _row(variant.otherwise, base, carry_out) if variant.otherwise is not None else None


def _matters(row: Row, base: Mapping[str, Any]) -> bool:
    """Say whether a change makes a difference that is worth a line."""
    less = max(abs(row.saves), abs(row.peak_allocated - base["peak_allocated"]))
    faster = row.seconds is not None and row.seconds < (1 - _LITTLE) * base["time"]["seconds"]
    return less > _LITTLE * base["peak_reserved"] or faster


def made_row(
    title: str,
    results: str,
    base: Mapping[str, Any],
    now: Mapping[str, Any],
    *,
    batch: int | None = None,
    share: float = 1.0,
    edits: tuple[Edit, ...] = (),
) -> Row:
    """Return the row of a trace beside that of the program as it is."""
    before, bound = base["flops"], now["time"]
    return Row(
        title,
        results,
        now["peak_allocated"],
        now["peak_reserved"],
        base["peak_reserved"] - now["peak_reserved"],
        now["fits"],
        round(now["flops"] / before / share, 3) if before else None,
        _at_best(bound) / share if bound and bound["of"] == base["time"]["of"] else None,
        batch,
        edits,
        saved=saved_by_line(base, now),
    )


def _at_best(bound: Mapping[str, Any]) -> float:
    """Return the bound on the time of kernels, or that of copies in one direction where these take longer."""
    copies = {kind: sum(w["seconds"] for w in bound["waits"] if w["kind"] == kind) for kind in ("h2d", "d2h")}
    return max(bound["seconds"], *copies.values())


def told(result: Result) -> Mapping[str, Any] | None:
    """Return the forecast of a run that came to its end."""
    found = result.data.get("forecast")
    return cast("Mapping[str, Any]", found) if result.outcome == "passed" and isinstance(found, Mapping) else None


async def _largest_batch(record: Record, base: Mapping[str, Any], carry_out: CarryOut) -> Row | None:
    """Return the row of the largest batch that fits on the GPU, found by tracing ever closer sizes."""
    batch = await in_turn(batch_size, record)
    if batch is None or base["fits"] is None:
        return None
    search = _Search(batch, base, carry_out)
    value = await search.largest()
    if value is None or value == batch.value:
        return None
    title = f"the largest batch that fits: {value} instead of {batch.value} ({batch.where})"
    edits, share = (batch.plan(value) or (None, ()))[1], value / batch.value
    return made_row(title, OTHER, base, search.traced[value], batch=value, share=share, edits=edits)


class _Search:
    """Looks for the largest batch that fits: what it takes grows about evenly with its size."""

    def __init__(self, batch: BatchSize, base: Mapping[str, Any], carry_out: CarryOut) -> None:
        self.traced: dict[int, Mapping[str, Any]] = {batch.value: base}
        self._batch, self._carry_out = batch, carry_out

    async def largest(self) -> int | None:
        """Return it; None where not one sample fits, or other sizes cannot be traced."""
        value = self._batch.value
        following = max(value // 2, 1) if value > 1 else 2
        while following is not None and len(self.traced) < _TRACES:
            if not await self._trace(following):
                break
            following = self._next()
        return max((size for size, now in self.traced.items() if now["fits"]), default=None)

    async def _trace(self, value: int) -> bool:
        planned = await in_turn(self._batch.plan, value)
        now = told(await self._carry_out(planned[0])) if planned is not None else None
        if now is None or now["peak_reserved"] == self.traced[self._batch.value]["peak_reserved"]:
            return False
        self.traced[value] = now
        return True

    def _next(self) -> int | None:
        """Return the size to trace next, by the two nearest to the limit; None where none is left between them."""
        fits = max((size for size, now in self.traced.items() if now["fits"]), default=0)
        fails = min((size for size, now in self.traced.items() if not now["fits"] and size > fits), default=None)
        guess = self._guess()
        step = _step(fits)
        low, high = fits + step, (fails - step if fails is not None else max(4 * fits, fits + step))
        if low > high:
            return None
        rounded = max(low, min(guess // step * step, high))
        return None if rounded in self.traced else rounded

    def _guess(self) -> int:
        (small, less), *_, (large, more) = sorted(self.traced.items())
        first, last = less["peak_reserved"], more["peak_reserved"]
        each = (last - first) / (large - small)
        room = less["memory"] - less["context"]
        return small + int((room - first) / each) if each > 0 else 4 * large


def _step(size: int) -> int:
    """Return how exactly a size of batch is asked for: in whole eights where it has several."""
    return 1 if size < 16 else 8
