# target: main
"""Toy DDPM on 2-D point clouds with an exponential moving average of the weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Denoiser(nn.Module):
    def __init__(self, hidden=64, steps=100):
        super().__init__()
        self.time = nn.Embedding(steps, hidden)
        self.inp = nn.Linear(2, hidden)
        self.mid = nn.Sequential(nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.out = nn.Linear(hidden, 2)

    def forward(self, x, t):
        return self.out(self.mid(self.inp(x) + self.time(t)))


class EMA:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, param in model.named_parameters():
            self.shadow[name].mul_(self.decay).add_(param, alpha=1 - self.decay)

    def copy_to(self, model):
        model.load_state_dict(self.shadow, strict=False)


def two_moons(n, device):
    theta = torch.rand(n, device=device) * torch.pi
    side = torch.randint(0, 2, (n,), device=device).float()
    x = torch.cos(theta) * (1 - 2 * side) + side
    y = torch.sin(theta) * (1 - 2 * side) + 0.5 * side
    return torch.stack([x, y], dim=1)


def diffusion_loss(model, x0, alpha_bar):
    t = torch.randint(0, len(alpha_bar), (x0.size(0),), device=x0.device)
    noise = torch.randn_like(x0)
    a = alpha_bar[t].unsqueeze(1)
    xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
    return F.mse_loss(model(xt, t), noise)


def main(steps: int = 20, timesteps: int = 100):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Denoiser(steps=timesteps)
    model.to(device)
    ema = EMA(model)
    betas = torch.linspace(1e-4, 0.02, timesteps, device=device)
    alpha_bar = torch.cumprod(1.0 - betas, dim=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = diffusion_loss(model, two_moons(128, device), alpha_bar)
        loss.backward()
        optimizer.step()
        ema.update(model)
    ema.copy_to(model)
    return model


if __name__ == "__main__":
    main()
