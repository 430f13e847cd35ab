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
