"""A real GPU: what is there, and how much of it a run may take.

A process that has spoken to the driver cannot be forked any more: the processes that runs are forked from never do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from drygrad.worker import processes

SHARE = 0.9
"""Of the memory that is free when a run begins, so that it never disturbs a job that is training."""
LEAST = 256 << 20
"""With less than so many bytes a run would end for want of memory before it showed anything."""
PATIENCE = 30
"""Seconds in which a driver must have answered."""

_Answer = TypeVar("_Answer")


def look(apart: bool) -> dict[str, Any]:
    """Return whether there is a GPU, the names, and the free bytes of each; ``apart`` asks in a child."""
    import torch

    if not hasattr(torch._C, "_cuda_getDeviceCount"):  # pyright: ignore[reportPrivateUsage]
        return _none()
    return _in_child() if apart and hasattr(os, "fork") else _look()


def _none(**why: str) -> dict[str, Any]:
    return {"available": False, "devices": [], "free_bytes": [], **why}


def _look() -> dict[str, Any]:
    import torch

    names, why = _asked(lambda: [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())])
    if names is None:
        return _none(why=why)
    free = [_asked(lambda index=index: torch.cuda.mem_get_info(index)[0])[0] or 0 for index in range(len(names))]
    return {"available": bool(names), "devices": names, "free_bytes": free}


def _asked(question: Callable[[], _Answer]) -> tuple[_Answer | None, str]:
    """Ask torch about a GPU; return the answer, and why there is none: one that is full cannot even be asked."""
    import torch

    try:
        return question(), ""
    except (RuntimeError, AssertionError, OSError, torch.cuda.DeferredCudaCallError) as error:
        return None, (str(error).splitlines() or [type(error).__name__])[0]


def _in_child() -> dict[str, Any]:
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            processes.die_with(parent)
            signal.alarm(PATIENCE)
            os.write(writer, json.dumps(_look()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        said = file.read()
    os.waitpid(pid, 0)
    try:
        return json.loads(said)
    except ValueError:
        print("the GPU probe ended without an answer", file=sys.stderr)
        return _none(why="the driver could not be queried")


def is_touched() -> bool:
    """Say whether this process has spoken to the driver, as some modules do while they are imported."""
    for fd in _open_files():
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}").startswith("/dev/nvidia"):
                return True
    return False


def _open_files() -> list[str]:
    try:
        return os.listdir("/proc/self/fd")
    except OSError:
        return []


def enter(plan: dict[str, Any]) -> str | None:
    """Cap what this process may take of the memory of the plan's GPUs; return why there is none to be had, if so."""
    import torch

    count, why = _asked(lambda: torch.cuda.device_count() if torch.cuda.is_available() else 0)
    if not count:
        return f"torch can use no GPU here{why and ': '}{why}"
    for index in range(min(count, int(plan.get("devices") or 1))):
        why = _capped(index, plan.get("gpu_memory"))
        if why is not None:
            return why
    return None


def _capped(index: int, limit: int | None) -> str | None:
    import torch

    memory, why = _asked(lambda: torch.cuda.mem_get_info(index))
    if memory is None:
        return f"GPU {index} cannot be used: {why}"
    free, total = memory
    allowed = min(free * SHARE, limit or free)
    if free * SHARE < LEAST:
        return f"GPU {index} has only {free >> 20} MiB free"
    torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total), index)  # pyright: ignore
    return None
