"""SIGKILL in the midst of a run, wherever it strikes: no process of ours is left, and the next run works."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm_workers
from cli_harness import environment, program
from process_tree import FOREVER, SOON, all_end, descendants, named, parent

from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import RunOptions
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.targets import target_named
from drygrad.settings import Settings
from drygrad.static.source import Source

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the processes are read from /proc")

IN_FLIGHT = "in-flight"
PROGRAM = f'''
import ctypes
import torch

PR_SET_NAME = 15


# dry-run: x=torch.ones(3)
def quick(x):
    return x.sum()


# dry-run: x=torch.ones(3)
def endless(x):
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"{IN_FLIGHT}")
    while True:
        x = x * 1.0
'''


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


class Runs:
    """Dry runs of the program in this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._source = Source(path.read_text())
        self._home = Home(Path(sys.executable), path.parent)
        self.service = DryRuns()

    async def outcome(self, qualname: str) -> str:
        target = target_named(self._source, qualname)
        assert target is not None
        options = RunOptions(device="cpu", timeout=60)
        records = await self.service.dry_run(self._source, self._path, target, self._home, options, Settings())
        assert isinstance(records, list)
        (record,) = records
        assert isinstance(record, Record)
        return record.result.outcome

    async def in_flight(self) -> tuple[asyncio.Task[str], int]:
        task = asyncio.create_task(self.outcome("endless"))
        while (pid := named(os.getpid(), IN_FLIGHT)) is None:
            assert not task.done(), task.result()
            await asyncio.sleep(0.05)
        return task, pid


async def test_of_the_worker_at_every_level(script: Path) -> None:
    warm_workers.shared().prefix()  # starts the process that forks the workers of all tests
    others = {*descendants(os.getpid())}
    runs = Runs(script)
    try:
        for level in range(4):  # the run itself, its zygote, the zygote above, and what guards them
            task, pid = await runs.in_flight()
            victim = pid
            for _ in range(level):
                victim = parent(victim)
            below = [victim, *descendants(victim)]
            os.kill(victim, signal.SIGKILL)
            assert await asyncio.wait_for(task, FOREVER) == "crashed"
            assert await asyncio.to_thread(all_end, below, SOON)
            assert await asyncio.wait_for(runs.outcome("quick"), 120) == "passed"
    finally:
        await runs.service.close()
    assert {*descendants(os.getpid())} <= others


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_of_the_command_line(script: Path, number: signal.Signals) -> None:
    command = program("run", f"{script}::endless", "--device", "cpu", "--timeout", "60", "--python", sys.executable)
    with subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 120
        while named(process.pid, IN_FLIGHT) is None:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        below = descendants(process.pid)
        process.send_signal(number)
        status = process.wait(FOREVER)
        assert all_end(below, SOON)
    assert status == (130 if number == signal.SIGINT else -number)
