"""Dry runs in jobs of a real Slurm of one node: what waits in its queue, shows; what is given up, leaves it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import slurm
from far_runs import PROMPT, ended, running

from drygrad.launchers import Profile

PROGRAM = "import os, torch\n\nprint('job', os.environ['SLURM_JOB_ID'], torch.ones(2).sum())\n"
SRUN = Profile(("srun", "-n1"))


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Provide a Slurm, which SLURM_CONF leads to."""
    if why := slurm.why_not():
        pytest.skip(why)
    with slurm.slurm(tmp_path_factory.mktemp("slurm")) as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(started))
        yield started


@contextmanager
def occupied() -> Generator[subprocess.Popen[bytes]]:
    """Have another job hold the only processor."""
    job = subprocess.Popen(["srun", "-n1", "sh", "-c", "echo begun; exec sleep 1000"], stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        assert job.stdout.readline() == b"begun\n"
        yield job
    finally:
        job.terminate()
        job.wait()


def program(folder: Path) -> Path:
    path = folder / "a.py"
    path.write_text(PROGRAM)
    return path


async def test_a_run_waits_for_the_queue_and_says_so(configuration: Path, tmp_path: Path) -> None:
    phases: list[str] = []
    with occupied() as job:

        def phase(name: str) -> None:
            phases.append(name)
            if "queued and waiting for resources" in name:
                job.terminate()

        async with running(program(tmp_path), SRUN, phase) as task:
            record = await ended(task)
    assert record.result.outcome == "passed", record.result
    assert record.result.data["output"]["text"].startswith("job ")
    assert any(name.startswith("waiting for srun: job") for name in phases), phases


async def test_a_run_that_is_given_up_leaves_the_queue(configuration: Path, tmp_path: Path) -> None:
    queued = asyncio.Event()

    def phase(name: str) -> None:
        if "queued and waiting for resources" in name:
            queued.set()

    with occupied():
        async with running(program(tmp_path), SRUN, phase) as task:
            await asyncio.wait_for(queued.wait(), PROMPT)
            assert len(slurm.queued(configuration)) == 2
            task.cancel()  # as an editor does; the workers live on
            await asyncio.gather(task, return_exceptions=True)
            until = asyncio.get_running_loop().time() + PROMPT
            while len(slurm.queued(configuration)) == 2:
                assert asyncio.get_running_loop().time() < until, "the job still waits"
                await asyncio.sleep(0.1)


async def test_no_job_is_left_when_all_is_over(configuration: Path, tmp_path: Path) -> None:
    async with running(program(tmp_path), SRUN, print) as task:
        await ended(task)
        assert len(slurm.queued(configuration)) == 1
    until = asyncio.get_running_loop().time() + PROMPT
    while any("COMPLETING" not in job for job in slurm.queued(configuration)):
        assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(0.1)
