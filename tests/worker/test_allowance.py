"""Imports have time of their own: the clock of a run stands still meanwhile, as long as that may take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from worker_client import WorkerClient, plan

from drygrad.worker import allowance, deadline
from drygrad.worker.allowance import Imports


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(allowance, "time", clock)
    return clock


def test_what_imports_take_is_allowed_up_to_a_bound(clock: Clock) -> None:
    imports = Imports()
    with imports.under_way():
        clock.now += 10
        with imports.under_way():
            clock.now += 5
        assert (imports.seconds, imports.are_under_way) == (15, True)
    clock.now += 100
    assert (imports.seconds, imports.allowed, imports.are_under_way) == (15, 15, False)
    imports.add(20)
    assert (imports.seconds, imports.allowed) == (15, 35)
    with imports.under_way():
        clock.now += 1000
    assert imports.allowed == allowance.SECONDS


class Waiting:
    """An event that is never set, and whose waiting takes no time but moves a clock."""

    clock: Clock

    def wait(self, timeout: float) -> bool:
        self.clock.now += timeout
        return False

    def is_set(self) -> bool:
        return False


def bark_after(clock: Clock, monkeypatch: pytest.MonkeyPatch, imports: Imports, seconds: float) -> tuple[float, int]:
    """Return after how long a watchdog barks, and how often it has said before that imports are under way."""
    beats: list[float] = []
    barked: list[float] = []
    Waiting.clock = clock
    monkeypatch.setattr(deadline, "time", clock)
    monkeypatch.setattr(deadline, "threading", SimpleNamespace(Event=Waiting, Thread=_Now))
    begun = clock.now
    watchdog = deadline.Watchdog(
        seconds, imports, lambda: (0, ()), lambda _: barked.append(clock.now - begun), lambda: beats.append(clock.now)
    )
    assert watchdog is not None
    (after,) = barked
    return after, len(beats)


class _Now:
    """A thread that has run when it was started."""

    def __init__(self, target: object, name: str, daemon: bool) -> None:
        self._target = target

    def start(self) -> None:
        assert callable(self._target)
        self._target()


def test_a_watchdog_counts_the_time_beside_imports(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    after, beats = bark_after(clock, monkeypatch, Imports(), 8.0)
    assert (pytest.approx(8.0), 0) == (after, beats)


def test_imports_that_hang_are_ended_when_their_time_and_the_run_s_are_up(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = Imports()
    with imports.under_way():
        after, beats = bark_after(clock, monkeypatch, imports, 8.0)
    assert after == pytest.approx(allowance.SECONDS + 8.0, abs=allowance.BEAT)
    assert beats >= allowance.SECONDS / allowance.BEAT - 1


@pytest.fixture
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        client.receive("ready")
        yield client


def test_a_run_tells_what_its_imports_took(worker: WorkerClient, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import time\ntime.sleep(0.2)\n")
    result = worker.run(plan(tmp_path, "import beside\ndef f():\n    pass\n", "f", setup=[[1, 0], [2, 0]]))
    assert result["outcome"] == "passed"
    assert 0.2 <= result["import_seconds"] <= result["seconds"]
