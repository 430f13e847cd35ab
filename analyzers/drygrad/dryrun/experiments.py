"""What follows a run that passed: the relations that right programs keep between two runs of it are tried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from drygrad.dryrun.conversation import OnInterim
from drygrad.dryrun.findings import findings, findings_elsewhere
from drygrad.dryrun.inputs.axes import samples_axis
from drygrad.dryrun.inputs.loaded import is_stacked_by_loader
from drygrad.dryrun.inventions import is_invented
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Experiments, Plan
from drygrad.dryrun.result import Result, Tried
from drygrad.dryrun.trial import experimented
from drygrad.settings import Settings
from drygrad.static.registry import relations

RANKS = "DG940"
"""The relation between several ranks of a program."""
_FEWEST, MOST_RANKS = 2, 8
_ALONE = ("failed", "unsupported")
"""How a program may end only because it needs other ranks."""
_SHARE = 0.6
"""No more than this share of a run's time may ranks compute; where the machine is busy, they may last longer."""
Run = Callable[[Plan, OnInterim], Awaitable[Result]]
_BROKEN, _NOT_TRIED = "broken", "not-tried"
_ERROR = "DG907"


def wanted(settings: Settings) -> tuple[str, ...]:
    """Return the codes of the relations that the settings leave on."""
    return tuple(code for code in relations() if settings.experiments_with(code))


def _owed(record: Record, settings: Settings) -> tuple[str, ...]:
    """Return the relations that are to be tried after a run: for a script, only that of its ranks."""
    codes = wanted(settings)
    if record.plan.target.function is not None and record.result.outcome == "passed":
        return codes
    if record.result.outcome not in ("passed", *_ALONE):
        return ()
    return tuple(code for code in codes if code == RANKS and _ranks(record))


def _ranks(record: Record) -> int:
    """Return how many ranks of a program are to be compared; 0 where nobody launches any, and it begins no group."""
    plan, data = record.plan, record.result.data
    launch = plan.options.launch
    asked = plan.options.ranks or (launch.ranks if launch is not None else 0)
    own = plan.program is None and not (is_invented(plan) or plan.partial)
    if not own or not (data.get("distributed") or asked > 1):
        return 0
    asked = asked if asked > 1 else int(data.get("ranks") or 0)
    return min(max(asked, _FEWEST), MOST_RANKS)


async def experiment(
    record: Record, run: Run, settings: Settings, seconds: float, on_more: Callable[[Record], None] | None = None
) -> Record:
    """Return the record of a run with what experiments have found; the run's own findings are as they were.

    ``on_more`` hears the record with what is known by then, whenever one has ended.
    """
    codes = _owed(record, settings)
    if seconds <= 0 or not codes:
        return record
    ranks = _ranks(record) if RANKS in codes else 0
    known: tuple[Tried, ...] = ()
    if record.result.own_seconds > seconds:
        why = f"the run took {record.result.own_seconds:.0f} s, and experiments have {seconds:g}"
        known = _none_tried(why, [code for code in codes if code != RANKS or not ranks])
        record = replace(record, result=replace(record.result, tried=known))
        codes = (RANKS,) if ranks else ()
    if not codes:
        return record
    trains = record.result.backward == "target"
    axis = await in_turn(_samples_axis, record.plan)
    asked = Experiments(codes, seconds, is_invented(record.plan), record.plan.partial, trains, axis)
    asked = _with_ranks(asked, record, ranks)
    plan = await in_turn(experimented, record.plan, record.result, asked)
    plan = replace(plan, options=replace(plan.options, devices=max(plan.options.devices, ranks)))
    if plan.options.device == "cuda":  # what speaks to its driver cannot be forked
        plan = replace(plan, options=replace(plan.options, device="sim"))
    so_far: list[Result] = []

    async def tell(known: Result) -> None:
        so_far[:] = [known]
        more = await in_turn(_with_outcome, record, known, known.tried, asked, settings)
        if on_more:
            on_more(more)

    result = await _heard(run, plan, tell)
    result, tried = _completed(result, so_far, asked.codes)
    if record.result.outcome in _ALONE:
        if _fails_alike(record, result, tried):
            record = _unsure(record, settings) if _came(tried) == _NOT_TRIED else record
            return replace(record, result=replace(record.result, tried=tried))
        record = _alone(record, asked.ranks, settings)
    tried = (*tried, *known)
    return await in_turn(_with_outcome, record, result, tried, asked, settings)


def _samples_axis(plan: Plan) -> int | None:
    """Return which axis of a target's inputs counts samples, by its text or by the loader that they come from."""
    said = samples_axis(plan.source, plan.target)
    return 0 if said is None and is_stacked_by_loader(plan) else said


async def _heard(run: Run, plan: Plan, tell: Callable[[Result], Awaitable[None]]) -> Result:
    """Return the result of a run; what it says on the way is told in turn."""
    heard: asyncio.Queue[Result] = asyncio.Queue()

    async def telling() -> None:
        while True:
            await tell(await heard.get())

    task = asyncio.create_task(telling())
    try:
        return await run(plan, heard.put_nowait)
    finally:
        task.cancel()


def _with_ranks(asked: Experiments, record: Record, ranks: int) -> Experiments:
    """Return experiments with the comparison of so many ranks, which take turns, and the time that they have."""
    most, took = _SHARE * record.plan.options.timeout, record.result.own_seconds
    seconds = min(most, max(asked.seconds, 4 * ranks * took)) if record.result.outcome == "passed" else most
    return replace(asked, ranks=ranks, launched=not record.result.data.get("spawns"), rank_seconds=seconds)


def _completed(result: Result, so_far: Sequence[Result], codes: Sequence[str]) -> tuple[Result, tuple[Tried, ...]]:
    """Return the result of a run, and what came of each relation; of one that broke off, what it had told by then."""
    why = result.reason or f"its run ended as {result.outcome}"
    known = result if result.tried else next(iter(so_far), result)
    ended = {one.code for one in known.tried}
    return known, (*known.tried, *_none_tried(why, [code for code in codes if code not in ended]))


def _fails_alike(record: Record, result: Result, tried: Sequence[Tried]) -> bool:
    """Say whether a program that failed alone fails as several ranks, too, as far as that is known."""
    ended = record.result.error if record.result.outcome == "failed" else None
    return _came(tried) == _NOT_TRIED or any(ended is not None and fault.at == ended.at for fault in result.faults)


def _came(tried: Sequence[Tried]) -> str:
    """Say what came of the comparison of ranks."""
    return next((one.outcome for one in tried if one.code == RANKS), _NOT_TRIED)


def _unsure(record: Record, settings: Settings) -> Record:
    """Return the record of a run whose error may come of its group of one, where more ranks could not be followed."""
    ended = record.result.error
    if ended is None or not record.result.data.get("distributed"):
        return record
    faults = tuple(
        replace(fault, severity="hint", message=f"{fault.message}, in a process group of one")
        if fault.code == _ERROR and fault.at == ended.at
        else fault
        for fault in record.result.faults
    )
    return _with_faults(record, replace(record.result, faults=faults), settings)


def _alone(record: Record, ranks: int, settings: Settings) -> Record:
    """Return the record of a run that failed only because it was alone, which is not told."""
    ended = record.result.error
    why = f"the program needs more than one rank; here it ran as {ranks}"
    faults = tuple(fault for fault in record.result.faults if ended is None or fault.at != ended.at)
    notes = (why, *record.result.notes)
    seen = replace(record.result, outcome="unsupported", reason=why, notes=notes, faults=faults, error=None)
    return _with_faults(record, seen, settings)


def _with_faults(record: Record, result: Result, settings: Settings) -> Record:
    """Return a record with another result, and the findings that it has."""
    here = findings(result, record.plan, record.plan.source, settings, record.run_id)
    there = findings_elsewhere(result, record.plan, settings, record.run_id)
    return replace(record, result=result, findings=here, elsewhere=there)


def _with_outcome(
    record: Record, result: Result, tried: tuple[Tried, ...], asked: Experiments, settings: Settings
) -> Record:
    """Return the record as that of one run: from here on, whoever repeats it repeats what has broken a relation."""
    broken = tuple(one.code for one in tried if one.outcome == _BROKEN)
    own = [fault for fault in result.faults if fault.facts.get("relation")]
    if not own:
        return replace(record, result=replace(record.result, tried=tried))
    again = replace(asked, codes=broken, ranks=asked.ranks if RANKS in broken else 0)
    plan = replace(record.plan, options=replace(record.plan.options, experiments=again))
    seen = replace(record.result, faults=tuple(own), error=None)
    known = {(f.code, f.span.start.line, f.path) for f in (*record.findings, *record.elsewhere)}
    here = findings(seen, record.plan, record.plan.source, settings, record.run_id)
    there = findings_elsewhere(seen, record.plan, settings, record.run_id)
    new = [f for f in (*here, *there) if (f.code, f.span.start.line, f.path) not in known]
    return replace(
        record,
        plan=plan,
        result=replace(record.result, faults=(*record.result.faults, *own), tried=tried),
        findings=(*record.findings, *(f for f in new if f.path is None)),
        elsewhere=(*record.elsewhere, *(f for f in new if f.path is not None)),
    )


def _none_tried(why: str, codes: Sequence[str]) -> tuple[Tried, ...]:
    return tuple(Tried(code, relations()[code], "not-tried", why) for code in codes)
