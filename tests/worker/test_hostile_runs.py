"""Runs that write on the wire themselves, or reach for others: each ends itself alone, and the next run works."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sandbox_harness import IS_ROOT
from worker_client import plan

from drygrad.dryrun.launch import LaunchOptions, launch
from drygrad.dryrun.result import Result
from drygrad.dryrun.states import State
from drygrad.dryrun.supervisor import Supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc")

WIRE = """
import os, time
def wires():
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if fd >= 100 and os.readlink(f"/proc/self/fd/{fd}").startswith("socket"):
                yield fd
        except OSError:
            pass
def say(data):
    for fd in wires():
        left = data
        while left:
            left = left[os.write(fd, left):]
"""
ENDING = {
    "a list": 'say(b"result [1, 2]\\n"); time.sleep(60)',
    "nothing": 'say(b"result null\\n"); time.sleep(60)',
    "no text": 'say(b"result \\xff\\xfe\\x00\\n"); time.sleep(60)',
    "brackets": 'say(b"result " + b"[" * 200000 + b"\\n"); time.sleep(60)',
    "a long number": 'say(b"result {\\"seconds\\": " + b"9" * 400 + b"}\\n"); time.sleep(60)',
    "a forged run": 'say(b"result {\\"outcome\\": \\"passed\\", \\"run\\": \\"other\\"}\\n"); time.sleep(60)',
    "a part": 'say(b"partial abc\\n"); os._exit(3)',
    "a long line": 'say(b"result " + b"a" * (20 << 20)); time.sleep(60)',
}
IGNORED = {
    "an older wire": 'say(b"{\\"result\\": [1, 2]}\\n")',
    "strange words": 'say(b"resurrect \\x00\\n\\n\\n \\nphase\\nphase " + b"x" * 100000 + b"\\n")',
    "many phases": 'say(b"phase target\\n" * 20000)',
}
VICTIM = """
import time
secret = bytearray(b"VICTIM-" + b"SECRET-0123456789")
began = time.monotonic()
while time.monotonic() - began < 8 and secret[:6] == b"VICTIM":
    time.sleep(0.05)
print("the victim has", bytes(secret).decode())
"""
ATTACKER = """
import os
pattern = b"VICTIM-" + b"SECRET-0123456789"
for process in [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
    for mode in (os.O_RDWR, os.O_RDONLY):
        try:
            fd = os.open(f"/proc/{process}/mem", mode)
            lines = open(f"/proc/{process}/maps").read().splitlines()
        except OSError:
            continue
        for line in lines:
            if "rw-p" not in line or "[v" in line:
                continue
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            try:
                data = os.pread(fd, min(end - start, 64 << 20), start)
                if pattern in data:
                    print("read")
                    os.pwrite(fd, b"HACKED", start + data.find(pattern))
                    print("written")
            except OSError:
                pass
"""


class Request:
    def __init__(self, folder: Path, text: str, **fields: Any) -> None:
        self._plan = plan(folder, text, **fields)

    def as_json(self) -> dict[str, Any]:
        return self._plan


@asynccontextmanager
async def working(layer: str, folder: Path) -> AsyncGenerator[tuple[Supervisor, list[State]]]:
    states: list[State] = []
    options = LaunchOptions(layers=layer, workspaces=(str(folder),))
    supervisor = Supervisor(launch(Path(sys.executable), options, folder), states.append)
    try:
        yield supervisor, states
    finally:
        await supervisor.close()


async def run(supervisor: Supervisor, folder: Path, text: str, **fields: Any) -> Result:
    return await supervisor.run(Request(folder, text, **fields))


async def test_a_run_that_forges_its_answer_ends_alone(tmp_path: Path) -> None:
    async with working("auto", tmp_path) as (supervisor, states):
        stage = (await run(supervisor, tmp_path, "import os\nprint(os.getppid())\n")).output
        for name, text in ENDING.items():
            result = await run(supervisor, tmp_path, WIRE + text)
            assert result.outcome == "error", name
            assert "malformed" in result.notes[0] or "exceeds" in result.notes[0], name
        for name, text in IGNORED.items():
            assert (await run(supervisor, tmp_path, WIRE + text)).outcome == "passed", name
        # The process that starts runs has outlived them all.
        assert (await run(supervisor, tmp_path, "import os\nprint(os.getppid())\n")).output == stage
        assert {state.name for state in states} <= {"starting", "ready", "busy"}


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["overlay", "landlock", "seccomp", "none"])
async def test_a_run_does_not_reach_another_or_what_starts_them(tmp_path: Path, layer: str) -> None:
    if layer == "none" and IS_ROOT:
        pytest.skip("nothing keeps root from anybody's memory")
    async with working(layer, tmp_path) as (supervisor, _):
        state = await supervisor.settled()
        if state.name == "failed":
            pytest.skip(state.why or "the layer does not hold here")
        began = asyncio.Event()
        victim = asyncio.ensure_future(
            supervisor.run(Request(tmp_path, VICTIM), lambda phase: began.set() if phase == "target" else None)
        )
        await began.wait()
        attacker = await run(supervisor, tmp_path, ATTACKER)
        assert attacker.outcome == "passed", attacker
        assert attacker.output == ""
        assert "VICTIM-SECRET-0123456789" in (await victim).output


async def test_a_run_has_a_limit_of_memory_and_says_when_it_was_reached(tmp_path: Path) -> None:
    async with working("auto", tmp_path) as (supervisor, _):
        text = "import resource\nprint(resource.getrlimit(resource.RLIMIT_DATA)[0] > 0)\n"
        assert (await run(supervisor, tmp_path, text)).output == "True\n"
        result = await run(supervisor, tmp_path, "x = bytearray(1 << 30)\n", memory_limit=256 << 20)
        assert result.outcome == "out-of-memory"
        assert "the run could use 256.0 MiB more memory than it started with" in result.notes
