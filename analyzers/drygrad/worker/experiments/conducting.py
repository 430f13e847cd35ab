"""Tries the relations, each in a process forked from this one, as long as the time allows: two at a time."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
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
_SIDE_BY_SIDE = 2
"""So many processes at once, where there are as many cores: each may take as much memory as the run."""


def conduct(bench: Bench, tell: Callable[[str], None], show: Callable[[], None]) -> None:
    """Try the relations that the plan names; the result has what came of each, and the faults of the broken ones.

    ``tell`` hears what is begun, and ``show`` that the result has more in it than before.
    """
    asked = bench.plan["experiments"]
    wanted = frozenset(asked["codes"])
    known = {one["code"] for one in bench.run.result.get("experiments", ())}
    kinds = [kind for kind in all_relations() if kind.code in wanted - known]
    bench.prepare()
    told = _Told(bench, kinds)
    for kind, answer in _answers(kinds, bench, _Purse(float(asked["seconds"])), tell):
        told.hear(kind, answer)
        if answer["outcome"] != NOT_TRIED:
            show()


class _Told:
    """What is known by now: in the order of the relations, whichever of them ends first."""

    def __init__(self, bench: Bench, kinds: list[type[Relation]]) -> None:
        self._run = bench.run
        self._kinds = kinds
        self._before = [*bench.run.faults]
        self._tried = [*bench.run.result.get("experiments", ())]
        self._answers: dict[type[Relation], dict[str, Any]] = {}

    def hear(self, kind: type[Relation], answer: dict[str, Any]) -> None:
        """Add what came of a relation."""
        self._run.failures += answer.pop("failures", ())
        self._answers[kind] = answer
        known = [(kind, self._answers[kind]) for kind in self._kinds if kind in self._answers]
        self._run.faults[:] = self._before
        for data in (data for _, answer in known for data in answer.get("faults", ())):
            self._run.report(Fault.of_json(data))
        self._run.result["experiments"] = [
            *self._tried,
            *(
                {"code": kind.code, "name": kind.name, **{key: answer[key] for key in ("outcome", "why", "seconds")}}
                for kind, answer in known
            ),
        ]


class _Purse:
    """The time for all relations, of which none may take too much; where others keep the machine busy, it lasts longer.

    So it counts what the processes of the experiments have computed, and the clock only as often as ``WAITING``. Two
    side by side may each take what is left: the one that is begun beside another has no less than if it came after.
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


class _Trial:
    """One relation that is being tried."""

    def __init__(self, kind: type[Relation], bench: Bench, purse: _Purse) -> None:
        self.kind = kind
        self._purse = purse
        self._begun = time.monotonic()
        seconds, end = purse.next()

        def work() -> dict[str, Any]:
            bench.allot(seconds, end)
            return _examined(kind, bench)

        self.process = isolated.Apart(work, end)

    def answer(self) -> dict[str, Any]:
        """Return what came of it, when it has ended."""
        passed = time.monotonic() - self._begun
        found = self.process.answer
        computed = found.pop("computed") if found is not None else 0.0
        self._purse.pay(max(passed / isolated.WAITING, computed))
        answer = found if found is not None else _not_tried(_reason(self.process.status))
        return {"why": "", **answer, "seconds": round(passed, 3)}


def _answers(
    kinds: list[type[Relation]], bench: Bench, purse: _Purse, tell: Callable[[str], None]
) -> Iterator[tuple[type[Relation], dict[str, Any]]]:
    """Yield what comes of each relation, as they end."""
    going: list[_Trial] = []
    slots = max(1, min(_SIDE_BY_SIDE, processes.cores()))
    for number, kind in enumerate(kinds, 1):
        reason = _refusal(kind, bench)
        while reason is None and len(going) >= slots:
            yield from _ended(going)
        reason = reason or ("out of time for experiments" if purse.empty else None)
        if reason is not None:
            yield kind, {**_not_tried(reason), "seconds": 0.0}
            continue
        tell(f"experiments: {kind.name}, {number} of {len(kinds)}")
        going.append(_Trial(kind, bench, purse))
    while going:
        yield from _ended(going)


def _ended(going: list[_Trial]) -> Iterator[tuple[type[Relation], dict[str, Any]]]:
    """Wait, then yield what came of those that have ended."""
    over = isolated.Apart.ended_of([trial.process for trial in going])
    for trial in [trial for trial in going if trial.process in over]:
        going.remove(trial)
        yield trial.kind, trial.answer()


def _refusal(kind: type[Relation], bench: Bench) -> str | None:
    """Return why a relation cannot be tried here, as far as that is known before."""
    if not processes.CAN_FORK:
        return "this system cannot fork"
    if bench.run.device == "cuda":
        return "a process that uses a GPU driver cannot be forked"
    try:
        kind().glance(bench.glance())
    except NotTried as reason:
        return str(reason)
    return None


def _examined(kind: type[Relation], bench: Bench) -> dict[str, Any]:
    """Return what comes of a relation; in the process of the experiment."""
    begun, before = time.process_time(), len(bench.run.failures)
    bench.run.faults.clear()
    try:
        faults = [*kind().examine(bench)]
    except NotTried as reason:
        answer = _not_tried(str(reason))
    except InputError as error:
        answer = _not_tried(f"the input {error.name} cannot be created a second time")
    except Exception as error:  # noqa: BLE001 - a fault of ours must not look like the user's
        answer = {**_not_tried("drygrad itself failed"), "failures": [_failure(kind, error)]}
    else:
        for fault in faults:
            fault.facts["relation"] = kind.code
        answer = {"outcome": BROKEN if faults else HELD, "faults": [fault.as_json() for fault in faults]}
    failures = [*answer.get("failures", ()), *bench.run.failures[before:]]
    return {**answer, "failures": failures, "computed": time.process_time() - begun}


def _reason(status: int | None) -> str:
    """Return why there is no answer, by the status that the process has ended with."""
    if status is None:
        return "it did not finish in time"
    return f"its process was ended by signal {-status}" if status < 0 else f"its process ended with status {status}"


def _not_tried(why: str) -> dict[str, Any]:
    return {"outcome": NOT_TRIED, "why": shortened(why)}


def _failure(kind: type[Relation], error: Exception) -> dict[str, str]:
    steps = traceback.extract_tb(error.__traceback__)[-4:]
    where = " < ".join(f"{step.filename.rpartition('/')[2]}:{step.lineno}" for step in reversed(steps))
    return {"instrument": kind.name, "error": f"{type(error).__name__}: {first_line(error)}", "at": where}
