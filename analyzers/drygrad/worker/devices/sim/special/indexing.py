"""Indexing: indices may be the host's, values may not, and masks make the host wait."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor

from drygrad.worker.devices.sim.mismatch import iterated
from drygrad.worker.devices.sim.state import report_sync

READS = ("index.Tensor", "index.Tensor_out", "_unsafe_index.Tensor")
WRITES = ("index_put_", "_index_put_impl_", "_unsafe_index_put")
MASKS = (torch.bool, torch.uint8)


def checked_indexing(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that checks devices as a GPU's does, before another that does not."""

    def run(self: Tensor, indices: Any, *rest: Any, **named: Any) -> Any:
        _check_indices(name, self, [index for index in indices if isinstance(index, Tensor)])
        values = rest[0] if name in WRITES and rest else named.get("values")
        if isinstance(values, Tensor) and not (values.dim() == 0 and values.numel() == 1):
            error = iterated([self, values])
            if error is not None:
                raise error
        return inner(self, indices, *rest, **named)

    return run


def _check_indices(name: str, self: Tensor, indices: list[Tensor]) -> None:
    for index in indices:
        if index.device != self.device and index.device.type != "cpu":
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({self.device})"
            )
        if index.dtype in MASKS and self.is_cuda:
            report_sync("sync", "aten::nonzero")
        if index.device.type == "cpu" and index.dim():
            report_sync("h2d", "aten::" + name.partition(".")[0])
