"""A dry run of a program through a profile, while the test looks on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.targets import target_named
from drygrad.launchers import Profile
from drygrad.settings import Settings
from drygrad.static.source import Source

PROMPT = 120.0
"""Seconds: far more than anything takes that is waited for."""


@asynccontextmanager
async def running(
    path: Path, profile: Profile, phase: Callable[[str], None], timeout: float = 30.0
) -> AsyncGenerator[asyncio.Task[list[Record] | Missing]]:
    """Run a file's program; the workers end with the block."""
    source, runs = Source(path.read_text()), DryRuns()
    home, options = Home(Path(sys.executable), path.parent, profile), RunOptions("cpu", timeout=timeout)
    script = target_named(source, None)
    assert script is not None
    task = asyncio.ensure_future(runs.dry_run(source, path, script, home, options, Settings(), phase))
    try:
        yield task
    finally:
        await runs.close()


async def ended(task: asyncio.Task[list[Record] | Missing]) -> Record:
    """Wait for a run."""
    records = await asyncio.wait_for(task, PROMPT)
    assert not isinstance(records, Missing)
    return records[0]
