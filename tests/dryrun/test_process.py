"""A worker's end where the system knows no process groups, as Windows does not."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest
from process_tree import FOREVER, all_end, descendants

from drygrad.dryrun.launch import Launch
from drygrad.dryrun.process import WorkerProcess

WORDS = '{"type": "log", "text": "up"}'
WORKER = f"import sys; print({WORDS!r}, flush=True); sys.stdin.read()"
LAUNCHER = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {WORKER!r}])"

ENDS_WHEN_TOLD = "import os, sys; sys.stdin.readline(); os._exit(3)"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_what_the_launcher_has_started_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    process = await WorkerProcess.start(Launch((sys.executable, "-c", LAUNCHER), "python"))
    messages = process.messages(garbage=0)
    assert await asyncio.wait_for(anext(messages), FOREVER) == {"type": "log", "text": "up"}
    below = descendants(process.pid)
    assert below
    monkeypatch.delattr(os, "killpg")
    process.kill()
    await asyncio.wait_for(process.ended(), FOREVER)
    assert await asyncio.to_thread(all_end, below)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such children")
async def test_a_process_that_ends_while_it_is_ended_is_no_unknown_child(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.version_info < (3, 12) and hasattr(os, "pidfd_open"):  # the default from 3.12 on
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        policy = asyncio.get_event_loop_policy()  # pyright: ignore[reportDeprecated]
        monkeypatch.setattr(policy, "get_child_watcher", lambda: watcher)
    process = await WorkerProcess.start(Launch((sys.executable, "-c", ENDS_WHEN_TOLD), "python"))
    process.send({})
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and the event loop has not heard of it
    process.kill()
    assert "exit status 3" in await asyncio.wait_for(process.ended(), FOREVER)
    assert "Unknown child" not in caplog.text
