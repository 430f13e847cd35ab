"""The supervisor against a worker that misbehaves in every way that workers do; none of these needs torch."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from drygrad.dryrun.backoff import Backoff
from drygrad.dryrun.launch import Launch
from drygrad.dryrun.states import Limits, State
from drygrad.dryrun.supervisor import Supervisor

FAKE = Path(__file__).resolve().parents[1] / "support" / "fake_worker.py"
LIMITS = Limits(start=20, cancel=0.2, grace=0.2, farewell=0.3, garbage=5)
PROMPT = 120.0
"""Far more than anything here takes, and far less than what it would wait for."""

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """A request for the fake worker."""

    request: dict[str, Any] = field(default_factory=dict[str, Any])

    def as_json(self) -> dict[str, Any]:
        return {"timeout": 30.0, **self.request}


@asynccontextmanager
async def supervising(
    *switches: str, limits: Limits = LIMITS, parallel: int = 2, states: list[State] | None = None
) -> AsyncGenerator[Supervisor]:
    command = (sys.executable, str(FAKE), *switches)
    launch = Launch(command, "python3.99", once="--once" in switches)
    on_state = None if states is None else states.append
    backoff = Backoff(limit=2, first=0.01)
    supervisor = Supervisor(launch, on_state, limits=limits, backoff=backoff, parallel=parallel)
    try:
        yield supervisor
    finally:
        await supervisor.close()


async def soon(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, PROMPT)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def in_flight(supervisor: Supervisor, request: dict[str, Any], run: str = "one") -> asyncio.Task[Any]:
    """Start a run and wait until the worker is at it."""
    phases: list[str] = []
    task = asyncio.create_task(supervisor.run(Plan(request), phases.append, run))
    await soon(until(lambda: "target" in phases))
    return task


async def test_a_run_goes_through_its_phases_to_its_result() -> None:
    states: list[State] = []
    async with supervising(states=states) as supervisor:
        phases: list[str] = []
        result = await soon(supervisor.run(Plan({"device": "sim"}), phases.append))
        assert (result.outcome, result.device) == ("passed", "sim")
        assert phases == ["waiting", "starting", "target"]
        assert supervisor.state.torch == "2.9.0"
    assert [state.name for state in states] == ["starting", "ready", "busy", "ready", "stopped"]


async def test_results_find_their_runs() -> None:
    async with supervising(parallel=8) as supervisor:
        plans = [Plan({"answer": {"seed": seed}}) for seed in range(20)]
        results = await soon(asyncio.gather(*map(supervisor.run, plans)))
        assert [result.seed for result in results] == [*range(20)]


async def test_death_in_the_midst_of_a_run_is_its_result_and_the_next_run_works(tmp_path: Path) -> None:
    async with supervising("--die-after", "2", "--counter", str(tmp_path / "starts")) as supervisor:
        assert (await soon(supervisor.run(Plan()))).outcome == "passed"
        crashed = await soon(supervisor.run(Plan()))
        assert crashed.outcome == "crashed"
        assert "SIGKILL" in crashed.notes[0]
        assert (await soon(supervisor.run(Plan()))).outcome == "passed"
    assert (tmp_path / "starts").read_text() == "2"


async def test_a_worker_that_never_starts_is_given_up_with_its_own_words() -> None:
    states: list[State] = []
    async with supervising("--exit-on-import", states=states) as supervisor:
        result = await soon(supervisor.run(Plan()))
        assert result.outcome == "error"
        assert "libcudart.so.12" in result.notes[0]
        assert supervisor.state.name == "failed"
        again = await soon(supervisor.run(Plan()))
        assert again.outcome == "error"
    assert [state.name for state in states].count("starting") == 3
    assert [state.name for state in states].count("backing-off") == 2


async def test_restart_tries_a_failed_worker_again(tmp_path: Path) -> None:
    async with supervising("--exit-first", "3", "--counter", str(tmp_path / "starts")) as supervisor:
        assert (await soon(supervisor.settled())).name == "failed"
        await soon(supervisor.restart())
        assert (await soon(supervisor.run(Plan()))).outcome == "passed"


async def test_an_interpreter_without_torch_is_not_tried_again(tmp_path: Path) -> None:
    counter = tmp_path / "starts"
    async with supervising("--unusable", "it has none", "--counter", str(counter)) as supervisor:
        result = await soon(supervisor.run(Plan()))
        assert [fault.code for fault in result.faults] == ["DG905"]
        assert "python3.99" in result.faults[0].message
        assert "it has none" in result.faults[0].message
    assert counter.read_text() == "1"


async def test_an_interpreter_that_is_not_there_is_unusable() -> None:
    supervisor = Supervisor(Launch(("/nowhere/python",), "/nowhere/python"))
    result = await soon(supervisor.run(Plan()))
    assert [fault.code for fault in result.faults] == ["DG905"]
    assert "No such file" in result.faults[0].message
    await supervisor.close()


async def test_some_garbage_between_the_messages_is_passed_over() -> None:
    async with supervising("--garbage", "4") as supervisor:
        assert (await soon(supervisor.run(Plan()))).outcome == "passed"


@pytest.mark.parametrize("switches", [("--garbage", "100"), ("--flood",)])
async def test_a_worker_that_does_not_speak_the_wire_is_ended(
    switches: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drygrad.dryrun.process.MAX_MESSAGE", 1 << 20)
    async with supervising(*switches) as supervisor:
        result = await soon(supervisor.run(Plan()))
        assert result.outcome == "error"
        assert "message" in result.notes[0]


async def test_a_worker_that_is_not_ready_in_time_is_ended() -> None:
    limits = Limits(start=0.1, farewell=0.1)
    async with supervising("--slow-start", "60", limits=limits) as supervisor:
        result = await soon(supervisor.run(Plan()))
        assert result.outcome == "error"
        assert "not ready within 0.1 s" in result.notes[0]


async def test_a_cancelled_run_ends_and_its_worker_serves_on(tmp_path: Path) -> None:
    async with supervising("--counter", str(tmp_path / "starts")) as supervisor:
        task = await in_flight(supervisor, {"hang": True})
        assert supervisor.cancel("one")
        assert (await soon(task)).outcome == "cancelled"
        assert (await soon(supervisor.run(Plan()))).outcome == "passed"
    assert (tmp_path / "starts").read_text() == "1"


async def test_a_run_that_begins_anew_elsewhere_can_be_cancelled_as_the_first_could(tmp_path: Path) -> None:
    async with supervising("--counter", str(tmp_path / "starts")) as supervisor:
        await soon(supervisor.run(Plan(), run="one"))
        task = await in_flight(supervisor, {"hang": True})  # of the same name, while the first is still put away
        assert supervisor.cancel("one")
        assert (await soon(task)).outcome == "cancelled"


@pytest.mark.parametrize("deaf", [(), ("--ignore-sigterm",)])
async def test_a_worker_that_ignores_cancel_is_killed_and_replaced(deaf: tuple[str, ...]) -> None:
    async with supervising("--hang", "--ignore-cancel", *deaf) as supervisor:
        task = await in_flight(supervisor, {})
        pid = supervisor.state.ready["pid"]
        asked = time.monotonic()
        supervisor.cancel("one")
        assert (await soon(task)).outcome == "cancelled"
        answered = time.monotonic() - asked
        await soon(until(lambda: not is_alive(pid)))
        died = time.monotonic() - asked
        assert answered < died
        assert supervisor.cancel("one") is False or not is_alive(pid)
        await soon(until(lambda: supervisor.state.name == "ready" and supervisor.state.ready["pid"] != pid))


async def test_a_run_beside_one_that_is_killed_is_done_by_the_next_worker(tmp_path: Path) -> None:
    async with supervising("--ignore-cancel", "--counter", str(tmp_path / "starts")) as supervisor:
        beside = await in_flight(supervisor, {"hang_in": [1]}, "two")
        killed = await in_flight(supervisor, {"hang": True})
        supervisor.cancel("one")
        assert (await soon(killed)).outcome == "cancelled"
        assert (await soon(beside)).outcome == "passed"
    assert (tmp_path / "starts").read_text() == "2"


async def test_the_end_of_the_caller_ends_the_run() -> None:
    async with supervising("--hang") as supervisor:
        task = await in_flight(supervisor, {})
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await soon(until(lambda: not supervisor.cancel("one")))
        assert supervisor.state.name == "ready"


async def test_a_run_that_waits_for_its_turn_can_be_cancelled() -> None:
    async with supervising(parallel=1) as supervisor:
        first = await in_flight(supervisor, {"hang": True})
        second = asyncio.create_task(supervisor.run(Plan(), run="two"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert supervisor.cancel("two")
        assert (await soon(second)).outcome == "cancelled"
        assert not first.done()
        supervisor.cancel("one")
        await soon(first)


async def test_a_run_that_waits_for_a_start_can_be_cancelled() -> None:
    async with supervising("--slow-start", "60") as supervisor:
        phases: list[str] = []
        task = asyncio.create_task(supervisor.run(Plan(), phases.append, "one"))
        await soon(until(lambda: "starting" in phases))
        assert supervisor.cancel("one")
        assert (await soon(task)).outcome == "cancelled"


async def test_no_more_runs_than_slots_are_sent_at_once() -> None:
    async with supervising(parallel=1) as supervisor:
        first = await in_flight(supervisor, {"hang": True})
        phases: list[str] = []
        second = asyncio.create_task(supervisor.run(Plan(), phases.append))
        await asyncio.sleep(0.1)
        assert phases == ["waiting"]
        supervisor.cancel("one")
        assert (await soon(second)).outcome == "passed"
        await soon(first)


async def test_a_worker_that_keeps_no_deadline_is_ended_by_the_supervisor() -> None:
    async with supervising("--hang", "--ignore-cancel") as supervisor:
        result = await soon(supervisor.run(Plan({"timeout": 0.1})))
        assert result.outcome == "deadline"


async def test_a_result_that_is_none_is_an_error_of_ours() -> None:
    async with supervising("--strange-result") as supervisor:
        assert (await soon(supervisor.run(Plan()))).outcome == "error"


async def test_chatter_on_stderr_blocks_nothing_and_is_kept_within_a_bound() -> None:
    async with supervising("--chatter", str(3 << 20)) as supervisor:
        assert (await soon(supervisor.run(Plan()))).outcome == "passed"
        assert len(supervisor.log) == 64 << 10


async def test_without_fork_each_run_has_a_process_of_its_own_and_a_spare_waits(tmp_path: Path) -> None:
    counter = tmp_path / "starts"
    async with supervising("--once", "--counter", str(counter)) as supervisor:
        for _ in range(3):
            assert (await soon(supervisor.run(Plan()))).outcome == "passed"
        await soon(until(lambda: supervisor.state.name == "ready"))
    assert counter.read_text() == "4"


async def test_without_fork_a_crash_costs_one_run(tmp_path: Path) -> None:
    async with supervising("--once", "--die-after", "1") as supervisor:
        results = await soon(asyncio.gather(*(supervisor.run(Plan()) for _ in range(6))))
        assert {result.outcome for result in results} == {"crashed"}
        assert supervisor.state.name != "failed"


async def test_close_leaves_no_process(tmp_path: Path) -> None:
    left = tmp_path / "pid"
    async with supervising("--hang", "--ignore-sigterm", "--grandchild", str(left)) as supervisor:
        task = await in_flight(supervisor, {})
        pid = supervisor.state.ready["pid"]
        await soon(until(left.exists))
    assert (await soon(task)).outcome == "cancelled"
    await soon(until(lambda: not is_alive(pid) and not is_alive(int(left.read_text()))))


async def test_sigkill_of_the_worker_takes_its_children_along(tmp_path: Path) -> None:
    left = tmp_path / "pid"
    async with supervising("--hang", "--grandchild", str(left)) as supervisor:
        task = await in_flight(supervisor, {})
        await soon(until(left.exists))
        grandchild = int(left.read_text())
        os.kill(supervisor.state.ready["pid"], 9)
        assert (await soon(task)).outcome == "crashed"
        await soon(until(lambda: not is_alive(grandchild)))


def test_backoff_doubles_gives_up_and_forgets() -> None:
    now = [0.0]
    backoff = Backoff(limit=3, window=60, first=0.5, clock=lambda: now[0])
    assert [backoff.pause() for _ in range(4)] == [0.5, 1.0, 2.0, None]
    now[0] = 61.0
    assert backoff.pause() == 0.5
    backoff.forget()
    assert backoff.pause() == 0.5
