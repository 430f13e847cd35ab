"""Which device a run gets when it is left to us, and why."""

from __future__ import annotations

from typing import Any

from drygrad.dryrun.states import State

ROOM = 1 << 30
"""The bytes that a GPU must have free; with less, a run would end for want of memory before it showed anything."""

UNSEEN = "device faults were not checked"
"""What a run on the CPU leaves open, where it is no choice of the user's."""


def choose(state: State) -> tuple[str, str]:
    """Return the device and the reason: a real GPU that has room, else the simulated one, else the CPU."""
    no_gpu = _no_gpu(state)
    if no_gpu is None:
        return "cuda", f"the GPU has {_gib(_free(state))} free"
    if state.sim.get("works") is not False:
        return "sim", no_gpu
    return "cpu", f"{no_gpu}, and simulating one failed: {state.sim.get('why') or 'the probe failed'}; {UNSEEN}"


def _no_gpu(state: State) -> str | None:
    if state.cuda.get("available") is not True:
        return "no GPU found"
    free = _free(state)
    return f"the GPU has only {_gib(free)} free" if free < ROOM else None


def _free(state: State) -> int:
    free: Any = state.cuda.get("free_bytes")
    if not isinstance(free, list) or not free or not isinstance(free[0], int):
        return ROOM
    return free[0]


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
