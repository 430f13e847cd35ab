"""What is left of the machine's memory, and what becomes of runs when it comes to its end."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from worker_client import plan

from drygrad.worker import processes
from drygrad.worker.sandbox import limits
from drygrad.worker.stage import RunProcess, Stage
from drygrad.worker.wire import Channel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_share_of_what_is_free_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda: 100 << 30)
    assert limits.share_of_memory() == 80 << 30
    assert not limits.is_scarce()
    monkeypatch.setattr(limits, "free_memory", lambda: 1 << 20)
    assert limits.share_of_memory() == 512 << 20
    assert limits.is_scarce()


def test_a_container_may_have_less_than_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text(f"{3 << 20}\n")
    (tmp_path / "memory.current").write_text(f"{2 << 20}\n")
    (tmp_path / "memory.stat").write_text(f"anon 7\ninactive_file {1 << 19}\nactive_file 0\n")
    monkeypatch.setattr(limits, "_GROUP", str(tmp_path))
    assert limits.free_memory() == (1 << 20) + (1 << 19)
    (tmp_path / "memory.max").write_text("max\n")
    assert (limits.free_memory() or 0) > 4 << 20


@pytest.fixture
def signals() -> Generator[None]:
    """Give this process back how it hears of children, which a stage changes."""
    before = signal.getsignal(signal.SIGCHLD)
    yield
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("signals")
def test_the_run_that_has_taken_most_is_ended_when_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    stage, above = (Stage(Channel(theirs.fileno(), theirs.fileno())), Channel(ours.fileno(), ours.fileno()))
    small, large = (RunProcess(name, plan(tmp_path, "")) for name in ("small", "large"))
    small.pid, large.pid = 11, 12
    ended: list[int] = []
    monkeypatch.setattr(processes, "memory", {11: 1 << 20, 12: 1 << 30}.__getitem__)
    monkeypatch.setattr(processes, "kill_group", ended.append)
    monkeypatch.setattr(stage, "_runs", {"small": small, "large": large})
    stage._spare_the_machine()  # pyright: ignore[reportPrivateUsage]
    assert ended == []
    monkeypatch.setattr(limits, "is_scarce", lambda: True)
    stage._spare_the_machine()  # pyright: ignore[reportPrivateUsage]
    assert ended == [12]
    message: dict[str, Any] = above.receive()[0]
    assert message["run"] == "large"
    assert json.loads(message["answer"])["outcome"] == "out-of-memory"
