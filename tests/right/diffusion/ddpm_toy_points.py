"""DDPM on points of a circle: noise-prediction training and ancestral sampling."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def cosine_betas(steps, s=0.008):
    t = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    bar = torch.cos((t + s) / (1 + s) * math.pi / 2) ** 2
    return (1 - bar[1:] / bar[:-1]).clamp(max=0.999).float()


class Denoiser(nn.Module):
    def __init__(self, steps, hidden=64):
        super().__init__()
        self.time = nn.Embedding(steps, 16)
        self.net = nn.Sequential(nn.Linear(2 + 16, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], dim=-1))


class Diffusion(nn.Module):
    def __init__(self, steps=30):
        super().__init__()
        betas = cosine_betas(steps)
        alphas = 1 - betas
        bar = alphas.cumprod(0)
        bar_prev = F.pad(bar[:-1], (1, 0), value=1.0)
        self.steps = steps
        self.register_buffer("betas", betas)
        self.register_buffer("alphas", alphas)
        self.register_buffer("bar", bar)
        self.register_buffer("posterior_var", betas * (1 - bar_prev) / (1 - bar))
        self.model = Denoiser(steps)

    def loss(self, x0):
        t = torch.randint(self.steps, (x0.size(0),), device=x0.device)
        noise = torch.randn_like(x0)
        a = self.bar[t].unsqueeze(1)
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        return F.mse_loss(self.model(xt, t), noise)

    @torch.no_grad()
    def sample(self, n):
        x = torch.randn(n, 2, device=self.betas.device)
        for i in reversed(range(self.steps)):
            t = torch.full((n,), i, device=x.device, dtype=torch.long)
            eps = self.model(x, t)
            mean = (x - self.betas[i] / (1 - self.bar[i]).sqrt() * eps) / self.alphas[i].sqrt()
            x = mean + self.posterior_var[i].sqrt() * torch.randn_like(x) if i > 0 else mean
        return x


def circle(n, device):
    angle = torch.rand(n, device=device) * 2 * math.pi
    return torch.stack([angle.cos(), angle.sin()], dim=1) + 0.03 * torch.randn(n, 2, device=device)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    diffusion = Diffusion().to(device)
    opt = torch.optim.Adam(diffusion.parameters(), lr=3e-3)
    for step in range(300):
        loss = diffusion.loss(circle(128, device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 0:
            print(f"step {step}: {loss.item():.3f}")
    diffusion.eval()
    radius = diffusion.sample(200).norm(dim=1)
    print(f"sampled radius {radius.mean().item():.2f} +- {radius.std().item():.2f}")
