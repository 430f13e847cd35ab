"""``torch.cuda`` and ``torch.accelerator`` as they are where there is a GPU."""

from __future__ import annotations

from drygrad.worker.devices.sim.cuda_api import (
    driver,
    figures,
    generators,
    native,
    pinning,
    profiling,
    refusals,
    streams,
    tensor_types,
)


def patch() -> None:
    """Give torch's Python side the functions that it would have from CUDA."""
    before = native.functions()
    for part in (driver, figures, generators, pinning, profiling, streams, tensor_types, refusals):
        part.patch()
    native.forget(before)
