"""Copies between the host and the devices, and within one."""

from __future__ import annotations

from torch import Tensor

from drygrad.worker.devices.sim.relabel import to_host
from drygrad.worker.devices.sim.state import report_sync


def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """``aten::copy_`` with at least one side on a device; tells the hook of what crosses the bus."""
    if not (self.is_cuda and src.is_cuda):
        direction = "d2h" if src.is_cuda else "h2d"
        report_sync(direction + ("_async" if non_blocking else ""), "aten::copy_")
    target = to_host(self) if self.is_cuda else self
    target.copy_(to_host(src) if src.is_cuda else src)
    return self
