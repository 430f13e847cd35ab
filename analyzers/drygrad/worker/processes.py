"""What the worker asks of the system about processes; on systems other than Linux as far as they can."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

CAN_FORK = sys.platform == "linux"
"""Elsewhere fork is missing, or not safe with the system's own frameworks."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def die_with(parent: int) -> None:
    """Have the system kill this process when its parent, known by its number, ends; at once if it has."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def kill_group(pid: int) -> None:
    """Kill a run: its process, its process group, and the descendants that have left the group."""
    for other in (*_descendants(pid), pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(other, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """Return the processes whose parent that one is."""
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def memory(pid: int) -> int:
    """Return the bytes that a process and its descendants hold and share with no file; shared ones count for each."""
    return sum(map(_memory, (pid, *_descendants(pid))))


def _memory(pid: int) -> int:
    with suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith(("RssAnon:", "RssShmem:")))
    return 0


def threads() -> int:
    """Return the number of threads of this process that a fork leaves behind.

    Some numeric libraries end their threads before a fork and start them again when needed; so one is made first.
    """
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1
