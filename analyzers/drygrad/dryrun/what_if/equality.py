"""Whether a change of the text computes the same: both texts really run, at a small size."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from drygrad.dryrun.comparing import Comparison, lost
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.result import Result
from drygrad.dryrun.trial import Trial
from drygrad.dryrun.what_if.variants import batch_size, small
from drygrad.model import Edit, Fix

CarryOut = Callable[[Plan], Awaitable[Result]]
_LIKE = "DG6"
"""Codes whose repair leaves values and gradients as they were: by that measure these changes are compared."""
_SAMPLES = 2
_ROUNDED = 16 * 2**-8
"""How far apart gradients may be that are computed in bfloat16: sixteen times its spacing at the largest."""
_MOST_FLOPS = 2e12
"""What a processor computes in seconds."""


class Equality:
    """Compares texts with that of a record, which runs once for all of them."""

    def __init__(self, record: Record, base: Mapping[str, Any], carry_out: CarryOut) -> None:
        self._record, self._base, self._carry_out = record, base, carry_out
        self._before: Result | None = None
        self._one_at_a_time = asyncio.Lock()

    async def of(self, edits: tuple[Edit, ...], *, in_parts: bool = False, rounded: bool = False) -> bool | None:
        """Say whether edits leave values and gradients as they were; None where that was not tried.

        Where a batch is computed in parts, its values are others: the gradients of its steps are compared. Where
        results are rounded to bfloat16, those of the first step are, by its digits.
        """
        before, after = await in_turn(lambda: (small(self._record, (), _SAMPLES), small(self._record, edits, _SAMPLES)))
        if before is None or after is None or await in_turn(self._flops) > _MOST_FLOPS:
            return None
        first, second = await asyncio.gather(self._as_it_is(before), self._carry_out(after))
        was, now = Comparison.read(first), Comparison.read(second)
        if first.outcome != "passed" or second.outcome != "passed" or was is None or now is None:
            return None
        if rounded:
            return now.begins_as(was, _ROUNDED) if was.steps else None
        if in_parts:
            return now.steps_as(was) if was.steps else None
        if not (was.values or was.state or was.gradients):
            return None  # there is nothing to compare
        trial, source = Trial(Fix("", edits), after.source, after), self._record.plan.source
        return lost(was, now, _LIKE, edits, lambda line: trial.line(line, source)) is None

    async def _as_it_is(self, plan: Plan) -> Result:
        async with self._one_at_a_time:
            if self._before is None:
                self._before = await self._carry_out(plan)
            return self._before

    def _flops(self) -> float:
        """Return about what a pass of the small size computes."""
        batch = batch_size(self._record)
        share = _SAMPLES / batch.value if batch is not None and batch.value > _SAMPLES else 1.0
        return self._base["flops"] * share
