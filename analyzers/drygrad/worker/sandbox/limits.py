"""Limits on what one run may take: memory, processor time, file size, processes, no core file; a backstop."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path

if sys.platform != "win32":
    import resource

_MOST_PROCESSES = 1024
_SPARE_SECONDS = 10
_SHARE = 0.8
_LEAST_MEMORY = 512 << 20
_UNKNOWN_MEMORY = 8 << 30
_RESERVE = 256 << 20
"""Bytes that stay free for everybody else; with less, runs are ended."""
_GROUP = "/sys/fs/cgroup"


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


@contextlib.contextmanager
def memory_bounded(memory_bytes: int) -> Generator[None]:
    """Limit the memory of this process for a while: a backstop, which native code could lift again."""
    if sys.platform == "win32":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = memory_bytes + _data_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def share_of_memory() -> int:
    """What a run may take if nothing else is said: most of what is free, so that the machine stays usable."""
    free = free_memory()
    return max(_LEAST_MEMORY, int(free * _SHARE)) if free is not None else _UNKNOWN_MEMORY


def is_scarce() -> bool:
    """Say whether the machine, or the container, has hardly any memory left for anybody."""
    free = free_memory()
    return free is not None and free < _RESERVE


def free_memory() -> int | None:
    """The bytes that are available without swapping, in the machine and in its container; None if neither says."""
    found = [count for count in (_of_machine(), _of_container()) if count is not None]
    return min(found) if found else None


def offer_to_the_system() -> None:
    """Have the kernel end this process before any other, where it must end one for want of memory."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def _of_container() -> int | None:
    """What the control group leaves; pages of files that it could drop count as free."""
    try:
        most = int(Path(_GROUP, "memory.max").read_text(encoding="ascii"))
        taken = int(Path(_GROUP, "memory.current").read_text(encoding="ascii"))
        lines = Path(_GROUP, "memory.stat").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):  # "max": there is no bound
        return None
    droppable = sum(int(line.split()[1]) for line in lines if line.startswith(("inactive_file ", "active_file ")))
    return max(0, most - taken + droppable)


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
