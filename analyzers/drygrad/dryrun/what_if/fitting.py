"""What makes a program fit that has run out of memory: changes of its text that keep results equal, each tried.

A change is followed at the real size, where it must need less than there is, and computed at a small one, where values
and gradients must be those of the text as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from drygrad.dryrun.forecasting import asked_for, forecast_after
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.result import Result
from drygrad.dryrun.short_forecast import forecast_of, size
from drygrad.dryrun.what_if.equality import Equality
from drygrad.dryrun.what_if.exploring import told
from drygrad.dryrun.what_if.variants import Variant, kept
from drygrad.gpus import Gpu
from drygrad.model import Finding, Fix

CarryOut = Callable[[Plan], Awaitable[Result]]
CODE = "DG507"
_OFFERED = 3


async def with_fitting(record: Record, carry_out: CarryOut, seconds: float) -> Record:
    """Return a record with fixes of what does not fit, found within so many seconds; the ones that save most first."""
    limit = record.plan.options.gpu_memory
    lacking = [finding for finding in record.findings if finding.code == CODE and finding.witness == "dry-run"]
    if not lacking or limit is None or record.result.device != "sim" or seconds <= 0:
        return record
    try:
        fixes = await asyncio.wait_for(_fixes(record, limit, carry_out), seconds)
    except asyncio.TimeoutError:
        return record

    def fixed(finding: Finding) -> Finding:
        return replace(finding, fixes=(*finding.fixes, *fixes)) if finding in lacking else finding

    return replace(record, findings=tuple(map(fixed, record.findings)))


async def _fixes(record: Record, limit: int, carry_out: CarryOut) -> list[Fix]:
    followed = await _followed(record, limit, carry_out)
    base = told(followed.result)
    if base is None:
        return []
    variants = await in_turn(lambda: list(kept(followed, base["seen"])))
    results = await asyncio.gather(*(carry_out(variant.plan) for variant in variants))
    traced = [(v, now["peak_allocated"]) for v, r in zip(variants, results, strict=True) if (now := told(r))]
    fitting = sorted((each for each in traced if each[1] <= limit), key=lambda each: each[1])
    single = [each for each in fitting if each[0] is not variants[-1]]
    equality = Equality(followed, base, carry_out)
    found: list[Fix] = []
    for variant, peak in (single or fitting)[:_OFFERED]:
        if await equality.of(variant.edits):
            needs = f"{size(peak)} at the peak instead of {size(base['peak_allocated'])}"
            found.append(Fix(f"{_capitalized(variant)}: {needs}", variant.edits, "unsafe", True))
    return found


async def _followed(record: Record, limit: int, carry_out: CarryOut) -> Record:
    """Return the record of the forecast of a run."""
    known = record if forecast_of(record) else await forecast_after(record, carry_out, anyway=True)
    options = asked_for(record.plan.options, Gpu(size(limit), limit))
    whole = forecast_of(known)
    outcome = "passed" if whole is not None and not whole["lower_bound"] else known.result.outcome
    result = replace(known.result, outcome=outcome)
    return replace(known, plan=replace(record.plan, options=options), result=result)


def _capitalized(variant: Variant) -> str:
    return variant.title[:1].upper() + variant.title[1:]
