"""What lies behind the fault of devices that has ended a run, such as more on the wrong device: one run goes on there.

The simulated GPU executes what it has refused as if the operands had been moved; what is found so is of the same text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from drygrad.dryrun.findings import findings, findings_elsewhere
from drygrad.dryrun.going_on import after_fixes
from drygrad.dryrun.inventions import is_invented, passed_on_by, written
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.result import Fault, Result
from drygrad.dryrun.trial import with_inputs
from drygrad.model import Finding
from drygrad.settings import Settings

Run = Callable[[Plan], Awaitable[Result]]
_OF_DEVICES = frozenset(("DG201", "DG203", "DG204", "DG205", "DG741"))


async def behind_devices(record: Record, run: Run, settings: Settings) -> Record:
    """Return the record of a run that a fault of devices has ended with what lies behind it."""
    first = _ending(record)
    if first is None:
        return record
    plan = await in_turn(_forgiving, record)
    result = await run(plan)
    told = {(fault.code, fault.at) for fault in record.result.faults}
    behind = tuple(fault for fault in result.faults if (fault.code, fault.at) not in told)
    if not behind or result.error is None or result.error.at != getattr(record.result.error, "at", None):
        return record
    return await in_turn(_with_faults, record, behind, first, settings)


def _ending(record: Record) -> Finding | None:
    """Return the finding of devices that has ended a run on the simulated GPU."""
    result = record.result
    if result.outcome != "failed" or result.device != "sim" or record.plan.within is not None:
        return None
    return next((f for f in record.findings if f.code in _OF_DEVICES and f.severity != "hint"), None)


def _forgiving(record: Record) -> Plan:
    """Return the plan of the same run that goes on; inputs that were searched are given as they were."""
    plan = replace(record.plan, options=replace(record.plan.options, forgive=True))
    known = is_invented(plan) and written(record.result) and not passed_on_by(record.result)
    again = with_inputs(plan, written(record.result)) if known else None
    return replace(again, options=replace(again.options, compare=False)) if again is not None else plan


def _with_faults(record: Record, behind: tuple[Fault, ...], first: Finding, settings: Settings) -> Record:
    """Return the record with more faults; who repeats it from here on, as to try a fix, goes on as well."""
    plan, result = record.plan, replace(record.result, faults=behind, error=None)
    known = {(f.code, f.span.start.line, f.path) for f in (*record.findings, *record.elsewhere)}
    found = [
        *findings(result, plan, plan.source, settings, record.run_id),
        *findings_elsewhere(result, plan, settings, record.run_id),
    ]
    lines = [first.span.start.line]
    new = [after_fixes(f, lines) for f in found if (f.code, f.span.start.line, f.path) not in known]
    return replace(
        record,
        plan=replace(plan, options=replace(plan.options, forgive=True)),
        result=replace(record.result, faults=(*record.result.faults, *behind)),
        findings=(*record.findings, *(f for f in new if f.path is None)),
        elsewhere=(*record.elsewhere, *(f for f in new if f.path is not None)),
    )
