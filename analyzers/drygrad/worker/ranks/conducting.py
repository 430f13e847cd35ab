"""Runs the plan as several ranks and compares what they have done, before the run itself goes on."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drygrad.worker import errors, processes
from drygrad.worker.errors import shortened
from drygrad.worker.ranks.differing import Comparison, differ, difference
from drygrad.worker.ranks.passing import passed_over
from drygrad.worker.ranks.seat import Seat, Wire
from drygrad.worker.ranks.sharing import shared
from drygrad.worker.ranks.table import Table
from drygrad.worker.run import Fault, Run
from drygrad.worker.search import isolated

if TYPE_CHECKING:
    from drygrad.worker.execute import Execution

CODE, NAME = "DG940", "ranks agree"
HELD, NOT_TRIED, BROKEN = "held", "not-tried", "broken"
_UNEXPLAINED = "DG907"
_UNSURE = ("TimeoutError", "ConnectionError", "ConnectionRefusedError")
_REFUSED = "ValueError"
"""What torch.distributed itself raises of what it is given; its other errors may come of a group that is not NCCL's."""
_OF_TORCH = f"{os.sep}torch{os.sep}distributed{os.sep}"


class NotCompared(Exception):
    """The ranks cannot be compared; the message says why."""


def conduct(execution: Execution, work: Callable[[], None]) -> None:
    """Do the work as several ranks; the result has what came of it, and faults where they do not agree."""
    run, asked = execution.run, execution.plan["experiments"]
    begun = time.monotonic()
    execution.tell(f"experiments: {NAME}, 1 of 1")
    faults: list[Fault] = []
    try:
        faults = _compared(
            execution, work, int(asked["ranks"]), begun + float(asked["rank_seconds"]) * isolated.WAITING
        )
        answer = {"outcome": BROKEN if faults else HELD, "why": ""}
    except NotCompared as reason:
        answer = {"outcome": NOT_TRIED, "why": shortened(str(reason))}
    seconds = round(time.monotonic() - begun, 3)
    run.result["experiments"] = [{"code": CODE, "name": NAME, **answer, "seconds": seconds}]
    for fault in faults:
        fault.facts["relation"] = CODE
        run.report(fault)


def _compared(execution: Execution, work: Callable[[], None], world: int, until: float) -> list[Fault]:
    if not processes.CAN_FORK or execution.run.device == "cuda":
        raise NotCompared("ranks need fork(), which is not available here")
    ranks, wires = _begun(execution, work, world, until)
    try:
        return _served(execution, ranks, wires, until)
    finally:
        _leave(wires)
        for rank in ranks:
            rank.leave()


def _served(execution: Execution, ranks: list[isolated.Apart], wires: list[Wire], until: float) -> list[Fault]:
    table = Table(wires)
    table.serve(until, differ)
    if table.overdue:
        raise NotCompared("the ranks did not finish in time")
    _leave(wires, [rank for rank in range(len(ranks)) if not table.ended(rank)])
    answers = [rank.answer for rank in _ended(ranks, table, until)]
    return _faults(execution.run, table, answers)


def _begun(
    execution: Execution, work: Callable[[], None], world: int, until: float
) -> tuple[list[isolated.Apart], list[Wire]]:
    ranks: list[isolated.Apart] = []
    wires: list[Wire] = []
    for rank in range(world):
        ours, theirs = socket.socketpair()
        ranks.append(isolated.Apart(lambda: _at_work(execution, work, Seat(rank, world, theirs)), until))  # noqa: B023
        theirs.close()
        wires.append(Wire(ours))
    return ranks, wires


def _leave(wires: list[Wire], ranks: list[int] | None = None) -> None:
    """Let ranks that wait know that nothing comes any more."""
    for number, wire in enumerate(wires):
        if ranks is None or number in ranks:
            wire.end.close()


def _ended(ranks: list[isolated.Apart], table: Table, until: float) -> list[isolated.Apart]:
    """Wait for the answers of those that have come to their end."""
    left = [rank for number, rank in enumerate(ranks) if table.ended(number)]
    while left and time.monotonic() < until:
        over = isolated.Apart.ended_of(left)
        left = [rank for rank in left if rank not in over]
    return ranks


def _at_work(execution: Execution, work: Callable[[], None], seat: Seat) -> dict[str, Any]:
    """Be a rank; in its process."""
    from drygrad.worker import lonely_group
    from drygrad.worker.execute import seed_all
    from drygrad.worker.ranks.group import Groups
    from drygrad.worker.ranks.notes import Notes

    run = execution.run
    seat.begin()
    seat.install()
    seed_all(int(execution.plan.get("seed") or 0) + seat.rank)
    execution.launch.become(seat.rank, seat.world, begin=bool(execution.plan["experiments"].get("launched")))
    notes = Notes(run, execution.loops)
    notes.install()
    lonely_group.take_seat(run, Groups(run, seat, notes, execution.hooks.blocks))
    raised: dict[str, Any] = {}
    try:
        work()
        outcome = "passed"
    except SystemExit as error:
        outcome = "passed" if error.code in (None, 0) else errors.settle(run, execution.instruments, error)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is what comes of it
        run.faults.clear()
        outcome = errors.settle(run, execution.instruments, error)
        raised = {"type": type(error).__name__, "of_torch": _OF_TORCH in (at := _innermost(error)), "at": at}
    faults = [fault.as_json() for fault in run.faults if fault.severity in ("error", "hint")] if raised else []
    return {
        "outcome": outcome,
        "faults": faults,
        "raised": raised,
        "reason": run.result.get("reason") or "",
        "notes": notes.as_json(),
        "blocks": sorted(execution.hooks.blocks),
        "stops": [[one["path"], one["line"], one["iterations"]] for one in run.result.get("truncated", ())],
    }


def _innermost(error: BaseException) -> str:
    """Return the file and the line that an error comes from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""


def _faults(run: Run, table: Table, answers: list[dict[str, Any] | None]) -> list[Fault]:
    for rank, answer in enumerate(answers):
        if table.ended(rank):
            _must_be_sound(rank, answer)
    failed = [(rank, answer) for rank, answer in enumerate(answers) if answer and answer["outcome"] == "failed"]
    if failed:
        return _failures(failed, len(answers))
    blocks = [known.union(answer["blocks"] if answer else ()) for known, answer in zip(table.blocks, answers)]
    comparison = Comparison(run.lines, table.traces, blocks)
    arrivals = table.differing or table.standing
    out_of_step = passed_over(run.lines, table.traces, blocks)
    if out_of_step is not None:
        return [out_of_step]
    if arrivals is None:
        return [*shared([answer["notes"] for answer in answers if answer is not None])]
    _must_have_gone_alike(table, answers)
    if table.differing is not None:
        return [comparison.of_meeting(arrivals, difference(arrivals) or "op")]
    return [comparison.of_waiting(arrivals, [rank for rank in range(len(answers)) if table.ended(rank)])]


def _must_be_sound(rank: int, answer: dict[str, Any] | None) -> None:
    if answer is None:
        raise NotCompared(f"the process of rank {rank} gave no answer")
    if answer["outcome"] not in ("passed", "failed"):
        raise NotCompared(f"rank {rank} ended as {answer['outcome']}: {answer['reason']}")
    raised = answer["raised"]
    if raised and (raised["type"] in _UNSURE or (raised["of_torch"] and raised["type"] != _REFUSED)):
        raise NotCompared(f"rank {rank} cannot be followed into torch.distributed: {raised['type']} at {raised['at']}")


def _must_have_gone_alike(table: Table, answers: list[dict[str, Any] | None]) -> None:
    """Raise NotCompared where the run has left loops of one rank after other passes than those of another."""
    stops = [
        answer["stops"] if answer is not None else (trace[-1].stops if trace else [])
        for answer, trace in zip(answers, table.traces)
    ]
    if any(one != stops[0] for one in stops):
        raise NotCompared("a dry run ends loops early, and not at the same iteration on every rank")


def _failures(failed: list[tuple[int, dict[str, Any]]], world: int) -> list[Fault]:
    """Return the faults of the first rank that failed, of a program that passed alone."""
    rank, answer = failed[0]
    faults = [Fault.of_json(data) for data in answer["faults"]]
    everywhere = len(failed) == world
    where = f"on each of {world} ranks" if everywhere else f"on rank {rank} of {world}"
    for fault in faults:
        fault.message = f"{where}: {fault.message}"
        fault.severity = "warning" if fault.severity == "hint" else fault.severity
        fault.code = CODE if fault.code == _UNEXPLAINED else fault.code
    return faults
