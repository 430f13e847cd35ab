# target: WearableTransformer.forward
# truth: The encoder layer is built without batch_first=True but gets (batch, time, dim), so attention runs across the
#   windows of the batch instead of along time: predictions depend on the other samples, and time steps never interact;
#   shapes fit, nothing raises.
"""Transformer classifier for windows of wearable sensor data."""
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class ModelConfig:
    n_channels: int = 6
    n_activities: int = 12
    dim: int = 64
    heads: int = 4
    layers: int = 2
    dropout: float = 0.1
    max_len: int = 512


class WearableTransformer(nn.Module):
    """Classifies fixed-length windows (batch, time, channels).

    >>> model = WearableTransformer(ModelConfig())
    >>> model(torch.randn(8, 128, 6)).shape
    torch.Size([8, 12])
    """

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.lift = nn.Linear(cfg.n_channels, cfg.dim)
        self.position = nn.Parameter(torch.zeros(cfg.max_len, cfg.dim))
        nn.init.normal_(self.position, std=0.02)
        layer = nn.TransformerEncoderLayer(  # error: DG752
            d_model=cfg.dim,
            nhead=cfg.heads,
            dim_feedforward=4 * cfg.dim,
            dropout=cfg.dropout,
            activation="gelu",
        )
        self.encoder = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.n_activities)

    def encode(self, window: Tensor) -> Tensor:
        """Per-step features (batch, time, dim)."""
        h = self.lift(window) + self.position[: window.size(1)]
        return self.encoder(h)

    def forward(self, window: Tensor) -> Tensor:
        pooled = self.encode(window).mean(dim=1)
        return self.head(self.norm(pooled))


def balanced_accuracy(logits: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    """Mean per-class recall over the classes that occur in labels."""
    correct = (logits.argmax(dim=-1) == labels).float()
    hits = torch.zeros(n_classes, device=labels.device).index_add_(0, labels, correct)
    counts = torch.bincount(labels, minlength=n_classes)
    present = counts > 0
    return (hits[present] / counts[present]).mean()
