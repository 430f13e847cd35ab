"""A simulated CUDA device: plain tensors that say ``cuda:0`` over host memory.

Autograd, autocast and torch's own error checks then apply as on a GPU. ``enable`` changes the process for good.
"""

from __future__ import annotations

from typing import Callable

from drygrad.worker.devices.sim import memory
from drygrad.worker.devices.sim.errors import Unsupported
from drygrad.worker.devices.sim.state import NOTES, STATE

__all__ = ["Unsupported", "enable", "memory", "notes", "on_sync", "probe", "stay_forkable"]

notes = NOTES

on_sync: Callable[[str, str], None] | None = None
"""Called with a kind (``sync``, ``h2d``, ``d2h``, ``h2d_async``, ``d2h_async``) and the name of what causes it."""


def enable(
    devices: int = 1,
    total_memory: int = 80 << 30,
    capability: tuple[int, int] = (9, 0),
    name: str = "Simulated NVIDIA GPU",
) -> None:
    """Let this process have simulated devices of ``total_memory`` bytes each.

    To be called once, before any operation on tensors; it runs none, so that the process may fork afterwards. Raises
    where this torch is not one that can be changed (``probe`` tells without harm).
    """
    if STATE.enabled:
        return
    from drygrad.worker.devices.sim import cuda_api, guard, hooks, registration, timers
    from drygrad.worker.devices.sim.special import storages

    STATE.devices, STATE.total_memory, STATE.capability, STATE.name = devices, total_memory, capability, name
    guard.install()
    hooks.install()
    timers.forget()
    cuda_api.patch()
    registration.register()
    storages.patch()
    STATE.enabled = True


def stay_forkable() -> None:
    """Let this process, which goes backward, be forked into others that do."""
    if STATE.enabled:
        from drygrad.worker.devices.sim import guard

        guard.stay_forkable()


def probe() -> str | None:
    """None where the simulated device works here, else a sentence that says why not; leaves this process as it was."""
    from drygrad.worker.devices.sim.probing import outcome

    return outcome()
