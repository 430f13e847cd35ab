"""How relations are tried: side by side, told as they end, in an order that does not depend on that."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from bench_harness import SECONDS

from drygrad.worker import processes
from drygrad.worker.experiments import conducting
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.lines import Lines
from drygrad.worker.run import Fault, Place, Run

pytestmark = pytest.mark.skipif(not processes.CAN_FORK, reason="experiments are processes that are forked")


class _Broken(Relation):
    """Ends when the one after it has."""

    code: ClassVar[str] = "DG921"
    name: ClassVar[str] = "one"
    pipe: ClassVar[tuple[int, int]]

    def examine(self, bench: Any) -> Iterable[Fault]:
        os.read(self.pipe[0], 1)
        yield Fault("DG401", f"told by {self.name}", Place("a.py", 3))


class _Beside(_Broken):
    code: ClassVar[str] = "DG922"
    name: ClassVar[str] = "two"

    def examine(self, bench: Any) -> Iterable[Fault]:
        yield Fault("DG401", f"told by {self.name}", Place("a.py", 3))


class _Refused(Relation):
    code: ClassVar[str] = "DG923"
    name: ClassVar[str] = "three"

    def glance(self, given: Any) -> None:
        raise NotTried(f"it was given {given}")

    def examine(self, bench: Any) -> Iterable[Fault]:
        raise AssertionError("it is not owed")


def _allot(seconds: float, until: float) -> None:
    assert 0 < seconds < SECONDS


def test_two_are_tried_at_a_time_and_told_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    _Broken.pipe = os.pipe()
    monkeypatch.setattr(conducting, "all_relations", lambda: [_Broken, _Beside, _Refused])
    monkeypatch.setattr(processes, "cores", lambda: 2)
    codes = ["DG921", "DG922", "DG923"]
    plan = {"path": "a.py", "device": "cpu", "experiments": {"codes": codes, "seconds": SECONDS}}
    run = Run(plan, Lines("a.py"))
    bench: Any = SimpleNamespace(plan=plan, run=run, prepare=lambda: None, glance=lambda: "nothing", allot=_allot)
    told: list[str] = []
    known: list[list[str]] = []

    def show() -> None:
        known.append([one["code"] for one in run.result["experiments"]])
        os.write(_Broken.pipe[1], b"!")

    conducting.conduct(bench, told.append, show)
    assert told == ["experiments: one, 1 of 3", "experiments: two, 2 of 3"]
    assert known == [["DG922", "DG923"], codes]
    outcomes = [(one["code"], one["outcome"], one["why"]) for one in run.result["experiments"]]
    assert outcomes == [
        ("DG921", "broken", ""),
        ("DG922", "broken", ""),
        ("DG923", "not-tried", "it was given nothing"),
    ]
    assert [(fault.message, fault.facts["relation"]) for fault in run.faults] == [("told by one", "DG921")]
