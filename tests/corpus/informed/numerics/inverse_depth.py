# target: depth_loss
# truth: `torch.where` hides the infinite inverse of zero depths in the forward pass, but its backward multiplies the
#   zero gradient by infinity: the gradients of all pixels outside of the field of view are NaN, and so are the
#   network's.
"""Depth from endoscopic images in inverse depth; outside of the round field of view there is none."""

import torch
import torch.nn as nn


def field_of_view(height, width):
    rows, columns = torch.linspace(-1, 1, height), torch.linspace(-1, 1, width)
    return (rows[:, None] ** 2 + columns[None, :] ** 2 <= 1).float()


class DepthNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 1, 1), nn.Softplus(),
        )

    def forward(self, images):
        return self.net(images).squeeze(1) * field_of_view(*images.shape[-2:])


def inverse(depth):
    """The inverse of positive depths, 0 elsewhere."""
    return torch.where(depth > 0, 1.0 / depth, torch.zeros_like(depth))  # error: DG402|DG406|DG410


def depth_loss(predicted, measured, smoothness=0.1):
    valid = measured > 0
    error = (inverse(predicted) - inverse(measured)).abs()
    data = (error * valid).sum() / valid.sum().clamp(min=1)
    gradient = (predicted[:, :, 1:] - predicted[:, :, :-1]).abs().mean()
    return data + smoothness * gradient


def main():
    torch.manual_seed(0)
    model = DepthNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images, measured = torch.rand(2, 3, 12, 12), 1 + torch.rand(2, 12, 12)
    measured = measured * field_of_view(12, 12)
    for _ in range(3):
        optimizer.zero_grad()
        loss = depth_loss(model(images), measured)
        loss.backward()
        optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    main()
