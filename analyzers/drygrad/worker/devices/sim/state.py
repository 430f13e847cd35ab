"""The simulated devices of this process: how many, how large, which one is current."""

from __future__ import annotations

import sys

from drygrad.worker.devices.sim.errors import invalid_ordinal

PACKAGE = "drygrad.worker.devices.sim"


class State:
    """What ``enable`` was told, and the current device; one object for the process."""

    enabled = False
    devices = 1
    total_memory = 80 << 30  # bytes of each device
    capability: tuple[int, int] = (9, 0)
    name = "Simulated NVIDIA GPU"
    current = 0


STATE = State()
NOTES: list[str] = []
"""What a run on the simulated device did otherwise than it would on a real one, in sentences."""
PINNED: set[int] = set()
"""Addresses of the host storages that were pinned and still live."""


def checked(index: int) -> int:
    """The index of a device that exists; -1 stands for the current one."""
    if index < 0:
        return STATE.current
    if index >= STATE.devices:
        raise invalid_ordinal()
    return index


def report_sync(kind: str, operation: str) -> None:
    """Tell the hook that the host waits for the device or copies to or from it."""
    hook = sys.modules[PACKAGE].on_sync
    if hook is not None:
        hook(kind, operation)
