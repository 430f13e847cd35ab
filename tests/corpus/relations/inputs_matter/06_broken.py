import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half) / half)
    ang = t[:, None].float() * freqs[None]
    return torch.cat([ang.cos(), ang.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, ch, t_dim):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.time = nn.Linear(t_dim, ch)
        self.norm2 = nn.GroupNorm(4, ch)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        ht = h + self.time(F.silu(emb))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return x + h


class Denoiser(nn.Module):
    def __init__(self, ch=16, t_dim=32):
        super().__init__()
        self.t_dim = t_dim
        self.stem = nn.Conv2d(3, ch, 3, padding=1)
        self.blocks = nn.ModuleList([ResBlock(ch, t_dim) for _ in range(2)])
        self.out = nn.Conv2d(ch, 3, 3, padding=1)

    def forward(self, x, t):
        emb = timestep_embedding(t, self.t_dim)
        h = self.stem(x)
        for block in self.blocks:
            h = block(h, emb)
        return self.out(h)


torch.manual_seed(0)
betas = torch.linspace(1e-4, 0.02, 100)
alpha_bar = torch.cumprod(1 - betas, 0)
model = Denoiser()
opt = torch.optim.Adam(model.parameters(), lr=2e-4)
data = torch.rand(8, 3, 16, 16) * 2 - 1
for step in range(5):
    t = torch.randint(0, 100, (8,))
    noise = torch.randn_like(data)
    ab = alpha_bar[t][:, None, None, None]
    noisy = ab.sqrt() * data + (1 - ab).sqrt() * noise
    loss = F.mse_loss(model(noisy, t), noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
