# target: script
# truth: The gradients are never cleared: each step applies the sum of all gradients so far.
"""Noise prediction on two-dimensional data."""

import torch
from torch import nn


class NoisePredictor(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, points: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.net(torch.cat([points, time[:, None]], dim=1))


class Diffusion:
    def __init__(self, steps: int = 50):
        betas = torch.linspace(1e-4, 0.02, steps)
        self.kept = torch.cumprod(1 - betas, dim=0)
        self.steps = steps

    def loss(self, model: nn.Module, points: torch.Tensor) -> torch.Tensor:
        time = torch.randint(0, self.steps, (len(points),))
        noise = torch.randn_like(points)
        kept = self.kept[time][:, None]
        noisy = kept.sqrt() * points + (1 - kept).sqrt() * noise
        return nn.functional.mse_loss(model(noisy, time / self.steps), noise)


def moons(count: int) -> torch.Tensor:
    angle = torch.rand(count) * torch.pi
    upper = torch.stack([angle.cos(), angle.sin()], dim=1)
    return torch.where(torch.rand(count, 1) < 0.5, upper, torch.tensor([1.0, 0.5]) - upper)


def main() -> None:
    torch.manual_seed(0)
    model, diffusion = NoisePredictor(), Diffusion()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(5):
        loss = diffusion.loss(model, moons(64))
        loss.backward()  # error: DG703
        optimizer.step()


if __name__ == "__main__":
    main()
