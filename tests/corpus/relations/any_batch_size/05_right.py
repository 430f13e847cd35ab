"""Heat map head with coordinate channels."""
import torch
import torch.nn as nn


class CoordConvHead(nn.Module):
    """Predicts one heat map per joint.

    Args:
        channels: channels of the input features.
        joints: number of heat maps.
        size: side of the (square) feature map.
        batch_size: batch size of the data loader.

    feats: (batch, channels, size, size) -> (batch, joints, size, size)
    """

    def __init__(self, channels: int = 16, joints: int = 5, size: int = 8, batch_size: int = 4):
        super().__init__()
        axis = torch.linspace(-1.0, 1.0, size)
        yy, xx = torch.meshgrid(axis, axis, indexing="ij")
        grid = torch.stack([xx, yy]).unsqueeze(0)
        self.register_buffer("grid", grid.repeat(batch_size, 1, 1, 1))
        self.conv1 = nn.Conv2d(channels + 2, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, joints, 1)

    def forward(self, feats: torch.Tensor) -> torch.Tensor:
        x = torch.cat([feats, self.grid[:1].expand(feats.size(0), -1, -1, -1)], dim=1)
        return self.conv2(torch.relu(self.conv1(x)))


def soft_argmax(heat: torch.Tensor) -> torch.Tensor:
    """Expected coordinates (batch, joints, 2) of heat maps (batch, joints, H, W)."""
    b, j, h, w = heat.shape
    p = heat.view(b, j, h * w).softmax(-1).view(b, j, h, w)
    x = (p.sum(2) * torch.linspace(-1, 1, w)).sum(-1)
    y = (p.sum(3) * torch.linspace(-1, 1, h)).sum(-1)
    return torch.stack([x, y], dim=-1)
