"""Tries the relations one after the other, each in a process forked from this one, as long as the time allows."""

from __future__ import annotations

import time
import traceback
from typing import Any, Callable

from drygrad.worker import processes
from drygrad.worker.errors import first_line, shortened
from drygrad.worker.experiments import all_relations
from drygrad.worker.experiments.bench import Bench
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.inputs import InputError
from drygrad.worker.run import Fault
from drygrad.worker.search import isolated

HELD, NOT_TRIED, BROKEN = "held", "not-tried", "broken"
_MOST_OF_IT = 0.6
"""No relation may take more than this share of all the time."""


def conduct(bench: Bench, tell: Callable[[str], None]) -> None:
    """Try the relations that the plan names; the result has what came of each, and the faults of the broken ones."""
    asked = bench.plan["experiments"]
    wanted = frozenset(asked["codes"])
    purse = _Purse(float(asked["seconds"]))
    told: list[dict[str, Any]] = bench.run.result.setdefault("experiments", [])
    bench.prepare()
    for kind in all_relations():
        if kind.code not in wanted:
            continue
        tell("experiments")
        begun = time.monotonic()
        answer = _answer_of(kind, bench, purse)
        for data in answer.pop("faults", ()):
            bench.run.report(Fault.of_json(data))
        bench.run.failures += answer.pop("failures", ())
        took = round(time.monotonic() - begun, 3)
        told.append({"code": kind.code, "name": kind.name, "why": "", "seconds": took, **answer})


class _Purse:
    """The time for all relations, of which none may take too much; where others keep the machine busy, it lasts longer.

    So it counts what the processes of the experiments have computed, and the clock only as often as ``WAITING``.
    """

    def __init__(self, seconds: float) -> None:
        self._most = seconds * _MOST_OF_IT
        self._left = seconds
        self._until = time.monotonic() + seconds * isolated.WAITING

    def next(self) -> tuple[float, float]:
        """Return how long the next relation may compute, and when, on the clock, it has to be done."""
        most = min(self._left, self._most)
        return most, min(self._until, time.monotonic() + most * isolated.WAITING)

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return self._left <= 0 or time.monotonic() >= self._until

    def pay(self, seconds: float) -> None:
        """Take what a relation has cost."""
        self._left -= seconds


def _answer_of(kind: type[Relation], bench: Bench, purse: _Purse) -> dict[str, Any]:
    if not processes.CAN_FORK:
        return _not_tried("this system cannot fork a process")
    if bench.run.device == "cuda":
        return _not_tried("a process that speaks to a GPU's driver cannot be forked")
    if purse.empty:
        return _not_tried("the time for experiments was up")
    begun = time.monotonic()
    seconds, end = purse.next()

    def work() -> dict[str, Any]:
        bench.allot(seconds, end)
        return _examined(kind, bench)

    found = isolated.until(work, end)
    passed = (time.monotonic() - begun) / isolated.WAITING
    purse.pay(max(passed, found.pop("computed")) if found is not None else passed)
    return found if found is not None else _not_tried("it did not come to an end in its time")


def _examined(kind: type[Relation], bench: Bench) -> dict[str, Any]:
    """Return what comes of a relation; in the process of the experiment."""
    begun, before = time.process_time(), len(bench.run.failures)
    bench.run.faults.clear()
    try:
        faults = [*kind().examine(bench)]
    except NotTried as reason:
        answer = _not_tried(str(reason))
    except InputError as error:
        answer = _not_tried(f"the input {error.name} cannot be made a second time")
    except Exception as error:  # noqa: BLE001 - a fault of ours must not look like the user's
        answer = {**_not_tried("drygrad itself failed"), "failures": [_failure(kind, error)]}
    else:
        for fault in faults:
            fault.facts["relation"] = kind.code
        answer = {"outcome": BROKEN if faults else HELD, "faults": [fault.as_json() for fault in faults]}
    failures = [*answer.get("failures", ()), *bench.run.failures[before:]]
    return {**answer, "failures": failures, "computed": time.process_time() - begun}


def _not_tried(why: str) -> dict[str, Any]:
    return {"outcome": NOT_TRIED, "why": shortened(why)}


def _failure(kind: type[Relation], error: Exception) -> dict[str, str]:
    steps = traceback.extract_tb(error.__traceback__)[-4:]
    where = " < ".join(f"{step.filename.rpartition('/')[2]}:{step.lineno}" for step in reversed(steps))
    return {"instrument": kind.name, "error": f"{type(error).__name__}: {first_line(error)}", "at": where}
