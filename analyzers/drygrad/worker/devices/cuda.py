"""A real GPU: what is there, and how much of it a run may take."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SHARE = 0.9
"""Of the memory that is free when a run begins, so that it never disturbs a job that is training."""


def look(apart: bool) -> dict[str, Any]:
    """Return whether there is a GPU, the names, and the free bytes of each.

    A process that has spoken to the driver cannot be forked any more; ``apart`` asks in a child.
    """
    import torch

    if not hasattr(torch._C, "_cuda_getDeviceCount"):  # pyright: ignore[reportPrivateUsage]
        return {"available": False, "devices": [], "free_bytes": []}
    return _in_child() if apart and hasattr(os, "fork") else _look()


def _look() -> dict[str, Any]:
    import torch

    try:
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        free = [torch.cuda.mem_get_info(index)[0] for index in range(len(names))]
    except (RuntimeError, AssertionError) as error:
        return {"available": False, "devices": [], "free_bytes": [], "why": str(error).splitlines()[0]}
    return {"available": bool(names), "devices": names, "free_bytes": free}


def _in_child() -> dict[str, Any]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
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
        print("the look at the GPUs ended without an answer", file=sys.stderr)
        return {"available": False, "devices": [], "free_bytes": [], "why": "the driver could not be asked"}


def enter(limit: int | None) -> str | None:
    """Cap what this process may take of the GPU's memory, in bytes; return why there is no GPU, if so."""
    import torch

    if not torch.cuda.is_available():
        return "there is no GPU that this torch can use"
    free, total = torch.cuda.mem_get_info()
    allowed = min(free * SHARE, limit or free)
    torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total))  # pyright: ignore
    return None
