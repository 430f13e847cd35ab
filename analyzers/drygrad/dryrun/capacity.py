"""How many runs this machine carries at once."""

from __future__ import annotations

import os
import re
from pathlib import Path

_FOR_A_RUN = 1 << 30
"""Bytes: torch's own pages are shared by all runs; what a small run adds is a few hundred MiB."""
_MOST = 8


def parallel_runs(free: int | None = None, cores: int | None = None) -> int:
    """Return how many runs fit into the free memory (bytes) and the cores, at least one."""
    free = _free_memory() if free is None else free
    cores = available_cores() if cores is None else cores
    fitting = free // _FOR_A_RUN if free is not None else cores
    return max(1, min(cores, fitting, _MOST))


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _free_memory() -> int | None:
    """Return the memory that is available without swapping; None where the system does not say."""
    try:
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
