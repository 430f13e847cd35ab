"""The processes below a process, as Linux lists them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

FOREVER = 180.0
SOON = 2.0
"""Seconds in which no process of ours may be left; it takes about a tenth of one."""


def descendants(pid: int) -> list[int]:
    """Return the processes below one, parents before children."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _fields(stat)
        if fields and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    return [*_below(pid, children)]


def named(pid: int, name: str) -> int | None:
    """Return the process below one that goes by a name."""
    return next((child for child in descendants(pid) if _comm(child) == name), None)


def parent(pid: int) -> int:
    """Return the parent of a process."""
    return int(_fields(Path(f"/proc/{pid}/stat"))[1])


def alive(pids: list[int]) -> list[int]:
    """Return those of some processes that have not ended."""
    stats = {pid: _fields(Path(f"/proc/{pid}/stat")) for pid in pids}
    return [pid for pid, fields in stats.items() if fields and fields[0] != "Z"]


def all_end(pids: list[int], seconds: float = FOREVER) -> bool:
    """Wait for the end of some processes; say whether it came."""
    end = time.monotonic() + seconds
    while alive(pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _below(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, ()):
        if child != os.getpid():
            yield child
            yield from _below(child, children)


def _fields(stat: Path) -> list[str]:
    """Return the fields behind the name: the state first, then the parent."""
    try:
        return stat.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
