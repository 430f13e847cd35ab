# target: train_step
# truth: acos has an infinite slope at 1: for a pair whose predicted and true rotation agree (a resting camera at the
#   start, where the model predicts the identity) the gradient is inf times 0 = NaN and after the clipped step all
#   weights are NaN; the loss itself looks fine.
"""Relative camera rotation between two frames, regressed as a 6-d correction to the identity."""
import torch
import torch.nn.functional as F
from torch import nn


def rotation_from_6d(x: torch.Tensor) -> torch.Tensor:
    """(..., 6) -> (..., 3, 3) by Gram-Schmidt on two column vectors."""
    first = F.normalize(x[..., :3], dim=-1)
    second = x[..., 3:] - (first * x[..., 3:]).sum(dim=-1, keepdim=True) * first
    second = F.normalize(second, dim=-1)
    third = torch.linalg.cross(first, second, dim=-1)
    return torch.stack([first, second, third], dim=-1)


def rotation_angle(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Geodesic distance in radians between rotation matrices of shape (..., 3, 3)."""
    trace = (a.transpose(-2, -1) @ b).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    cosine = (trace - 1) / 2
    return torch.acos(cosine.clamp(-1.0, 1.0))  # error: DG410|DG412


class RelativeRotation(nn.Module):
    """Siamese frame encoder; starts out predicting no motion at all."""

    def __init__(self, channels: int = 16):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, channels, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        )
        self.head = nn.Linear(2 * channels * 16, 6)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.register_buffer("identity", torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]))

    def forward(self, earlier: torch.Tensor, later: torch.Tensor) -> torch.Tensor:
        pair = torch.cat([self.encoder(earlier), self.encoder(later)], dim=1)
        return rotation_from_6d(self.identity + self.head(pair))


def train_step(model, optimizer, earlier, later, rotation, max_norm=1.0):
    """`rotation` (batch, 3, 3) is the true motion; clips include stretches of a resting camera."""
    model.train()
    loss = rotation_angle(model(earlier, later), rotation).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def median_error_degrees(model, batches, device):
    model.eval()
    angles = [rotation_angle(model(a.to(device), b.to(device)), r.to(device)) for a, b, r in batches]
    return torch.rad2deg(torch.cat(angles)).median().item()
