"""Many files on many cores, in the order they were given."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from drygrad.dryrun.capacity import available_cores

from .inspection import Job, failed, inspect, prepare_worker
from .report import FileResult

if TYPE_CHECKING:
    from rich.progress import Progress

BYTES_THAT_PAY = 300_000
"""Starting processes costs about as much as checking this much text."""

SECONDS_BEFORE_PROGRESS = 1.0


def inspect_all(jobs: Sequence[Job], processes: int | None, *, show_progress: bool) -> Iterator[FileResult]:
    """Yield the result of each job, in the order of the jobs."""
    count = processes or min(available_cores(), len(jobs))
    pays = len(jobs) > 1 and count > 1 and (processes or _size(jobs) > BYTES_THAT_PAY)
    results = _in_processes(jobs, count) if pays else map(inspect, jobs)
    if show_progress and sys.stderr.isatty():
        return _with_progress(results, len(jobs))
    return iter(results)


def _size(jobs: Sequence[Job]) -> int:
    total = 0
    for job in jobs:
        try:
            total += job.path.stat().st_size
        except OSError:
            continue  # the check itself will say what is wrong with the file
        if total > BYTES_THAT_PAY:
            break
    return total


def _in_processes(jobs: Sequence[Job], count: int) -> Iterator[FileResult]:
    import multiprocessing  # noqa: PLC0415 - one file needs no processes
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415
    from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415

    method = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    chunk = max(1, min(len(jobs) // (count * 4), 50))
    done = 0
    try:
        with ProcessPoolExecutor(count, context, prepare_worker) as pool:
            for result in pool.map(inspect, jobs, chunksize=chunk):
                done += 1
                yield result
    except BrokenProcessPool:
        message = "not checked: a process died, possibly out of memory; use --jobs 1 to see which file"
        yield from (failed(job, message) for job in jobs[done:])


def _with_progress(results: Iterator[FileResult], total: int) -> Iterator[FileResult]:
    """Pass the results on; show a bar when they have taken so long that one wonders."""
    started = time.monotonic()
    bar: Progress | None = None
    done = 0
    try:
        for result in results:
            done += 1
            if bar is None and time.monotonic() - started > SECONDS_BEFORE_PROGRESS:
                bar = _progress(total)
            if bar:
                bar.update(bar.task_ids[0], completed=done)
            yield result
    finally:
        if bar:
            bar.stop()


def _progress(total: int) -> Progress:
    from rich.console import Console  # noqa: PLC0415 - rich takes a tenth of a second, and most checks are shorter
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("Checking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("check", total=total)
    bar.start()
    return bar
