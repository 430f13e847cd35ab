"""Fine tuning with frozen batch norm statistics."""
import torch
import torch.nn as nn


class FineTuneNet(nn.Module):
    """Backbone with frozen batch norms and a fresh head.

    images: (batch, 3, H, W) -> (batch, classes)
    """

    def __init__(self, classes: int = 8, drop: float = 0.3):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(drop),
            nn.Linear(32, classes),
        )

    def train(self, mode: bool = True):
        """Keep the batch norms of the backbone in inference mode."""
        super().train(mode)
        for module in self.backbone.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(images))
