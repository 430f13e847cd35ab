"""Limits on what one run may take: memory, processor time, file size, processes, no core file; a backstop."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import resource

_MOST_PROCESSES = 1024
_SPARE_SECONDS = 10


def apply(seconds: float | None, memory_bytes: int | None, file_bytes: int, *, own_processes: bool) -> None:
    """Limit this process and its descendants. `memory_bytes` come on top of what it has now.

    With `own_processes` the kernel counts its processes apart from the user's others, and they can be limited too.
    """
    if sys.platform == "win32":
        return
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    if seconds is not None:
        _lower(resource.RLIMIT_CPU, int(seconds * (os.cpu_count() or 1)) + _SPARE_SECONDS)
    if memory_bytes is not None:
        # Private writable memory: the address space would count what a GPU driver merely reserves.
        _lower(resource.RLIMIT_DATA, memory_bytes + _data_bytes())
    if own_processes:
        _lower(resource.RLIMIT_NPROC, _MOST_PROCESSES)


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _data_bytes() -> int:
    """The private writable memory of this process now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
