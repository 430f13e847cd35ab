# target: script
"""DDPM on 2-D points (two moons), small enough for a laptop."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

T = 100


def cosine_alphas_bar(steps: int) -> torch.Tensor:
    t = torch.linspace(0, 1, steps + 1)
    f = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
    return (f / f[0])[1:].clamp(1e-4, 0.9999)


def two_moons(n: int) -> torch.Tensor:
    theta = torch.rand(n) * math.pi
    upper = torch.stack([theta.cos(), theta.sin()], dim=1)
    lower = torch.stack([1 - theta.cos(), 0.5 - theta.sin()], dim=1)
    pick = (torch.rand(n, 1) < 0.5).float()
    return pick * upper + (1 - pick) * lower + 0.05 * torch.randn(n, 2)


class Denoiser(nn.Module):
    def __init__(self, hidden: int = 128, time_dim: int = 32):
        super().__init__()
        self.time = nn.Embedding(T, time_dim)
        self.net = nn.Sequential(
            nn.Linear(2 + time_dim, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 2),
        )

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], dim=1))


def diffusion_loss(model, x0, alphas_bar):
    t = torch.randint(0, T, (x0.size(0),))
    noise = torch.randn_like(x0)
    a = alphas_bar[t].unsqueeze(1)
    x_t = a.sqrt() * x0 + (1 - a).sqrt() * noise
    return (model(x_t, t) - noise).pow(2).mean()


def train(model, loader, alphas_bar, epochs: int, lr: float = 0.05):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    history = []
    for epoch in range(epochs):
        running = 0.0
        for (x0,) in loader:
            loss = diffusion_loss(model, x0, alphas_bar)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        history.append(running / len(loader))
        print(f"epoch {epoch:02d} loss {history[-1]:.4f}")
    return history


def main():
    torch.manual_seed(3)
    loader = DataLoader(TensorDataset(two_moons(4096)), batch_size=128, shuffle=True)
    train(Denoiser(), loader, cosine_alphas_bar(T), epochs=12)


if __name__ == "__main__":
    main()
