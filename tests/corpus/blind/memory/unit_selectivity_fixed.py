# target: UnitSelectivity.run
"""Class selectivity of convolutional units (which stimulus class drives which channel)."""
from typing import Dict, Iterable, List, Tuple

import torch
from torch import nn, Tensor


class UnitSelectivity:
    """Mean response of every channel of one layer to every stimulus class.

    model: any image model; layer: its dotted module name, e.g. "features.3".
    """

    def __init__(self, model: nn.Module, layer: str, num_classes: int):
        modules: Dict[str, nn.Module] = dict(model.named_modules())
        if layer not in modules:
            raise KeyError(f"no module {layer!r}; choose from {sorted(modules)}")
        self.model = model.eval()
        self.layer = modules[layer]
        self.num_classes = num_classes

    def _activations(self, images: Tensor) -> Tensor:
        """(B, C, H, W) output of the layer for a batch of images."""
        captured: List[Tensor] = []
        handle = self.layer.register_forward_hook(lambda mod, args, out: captured.append(out))
        try:
            self.model(images)
        finally:
            handle.remove()
        return captured[0]

    @torch.no_grad()
    def run(self, loader: Iterable[Tuple[Tensor, Tensor]]) -> Tensor:
        """Returns (num_classes, C) mean responses over all images and positions."""
        sums, counts = None, None
        for images, labels in loader:
            response = self._activations(images).relu().mean(dim=(2, 3))
            if sums is None:
                sums = response.new_zeros(self.num_classes, response.size(1))
                counts = response.new_zeros(self.num_classes, 1)
            sums.index_add_(0, labels, response)
            counts.index_add_(0, labels, torch.ones_like(response[:, :1]))
        if sums is None:
            raise ValueError("empty loader")
        return sums / counts.clamp(min=1)

    @staticmethod
    def index(mean_response: Tensor) -> Tensor:
        """Selectivity per unit: (best - mean of the others) / (best + mean of the others)."""
        best, _ = mean_response.max(dim=0)
        rest = (mean_response.sum(dim=0) - best) / (mean_response.size(0) - 1)
        return (best - rest) / (best + rest + 1e-8)


class StimulusNet(nn.Module):
    def __init__(self, num_classes: int = 8, width: int = 32):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(),
        )
        self.classifier = nn.Linear(2 * width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean(dim=(2, 3)))
