# target: ActivationProbe.summarize
# truth: The forward hook appends every batch's full activation to a list that is only emptied in close(), so memory grows with
#   each batch that goes through the probed model.
"""Collects activation statistics of selected layers (dead units, saturation) while a model runs."""
from __future__ import annotations

from collections import defaultdict
from typing import Iterable

import torch
from torch import nn


class ActivationProbe:
    """Use::

        probe = ActivationProbe(model, ["features.1", "features.3"])
        report = probe.summarize(batches)
        probe.close()
    """

    def __init__(self, model: nn.Module, layer_names: Iterable[str]):
        self.model = model
        self.records: dict[str, list[torch.Tensor]] = defaultdict(list)
        modules = dict(model.named_modules())
        self._handles = [modules[name].register_forward_hook(self._make_hook(name)) for name in layer_names]

    def _make_hook(self, name: str):
        def hook(module, inputs, output):
            self.records[name].append(output.detach())  # fault: no rule

        return hook

    @staticmethod
    def _stats(act: torch.Tensor) -> torch.Tensor:
        """Per-channel fraction of exact zeros, mean and maximum: (3, C)."""
        dims = [d for d in range(act.dim()) if d != 1]
        return torch.stack([(act == 0).float().mean(dims), act.mean(dims), act.amax(dims)])

    @torch.no_grad()
    def summarize(self, batches: Iterable[torch.Tensor]) -> dict[str, dict[str, float]]:
        self.model.eval()
        for batch in batches:
            self.model(batch)
        report = {}
        for name, recorded in self.records.items():
            stats = torch.stack([self._stats(r) for r in recorded])
            report[name] = {
                "dead_channels": int((stats[:, 0].amin(0) == 1).sum()),
                "mean": stats[:, 1].mean().item(),
                "max": stats[:, 2].max().item(),
            }
        return report

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self.records.clear()


def example_model() -> nn.Module:
    model = nn.Sequential()
    model.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
    model.pool = nn.AdaptiveAvgPool2d(1)
    return model
