"""A small time-conditioned U-Net trained by v-prediction on synthetic square images, with EMA weights."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(1000.0) * torch.arange(half, device=t.device, dtype=torch.float32) / half)
    angles = t[:, None] * freqs[None]
    return torch.cat([angles.cos(), angles.sin()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, emb):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, c_in), nn.GroupNorm(4, c_out)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.emb = nn.Linear(emb, c_out)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(emb)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class UNet(nn.Module):
    def __init__(self, base=8, emb=32):
        super().__init__()
        self.emb_dim = emb
        self.embed = nn.Sequential(nn.Linear(emb, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.stem = nn.Conv2d(1, base, 3, padding=1)
        self.down = ResBlock(base, base, emb)
        self.pool = nn.Conv2d(base, base * 2, 3, stride=2, padding=1)
        self.mid = ResBlock(base * 2, base * 2, emb)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.merge = ResBlock(base * 3, base, emb)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x, t):
        e = self.embed(timestep_embedding(t * 1000.0, self.emb_dim))
        a = self.down(self.stem(x), e)
        b = self.mid(self.pool(a), e)
        return self.out(self.merge(torch.cat([self.up(b), a], dim=1), e))


def squares(n, device):
    img = torch.full((n, 1, 8, 8), -1.0, device=device)
    corner = torch.randint(0, 5, (n, 2)).tolist()
    for i, (r, c) in enumerate(corner):
        img[i, :, r : r + 3, c : c + 3] = 1.0
    return img


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = UNet().to(device)
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    for step in range(40):
        x0 = squares(16, device)
        t = torch.rand(16, device=device)
        a, s = torch.cos(t * math.pi / 2)[:, None, None, None], torch.sin(t * math.pi / 2)[:, None, None, None]
        noise = torch.randn_like(x0)
        v = a * noise - s * x0
        loss = F.mse_loss(net(a * x0 + s * noise, t), v)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update_parameters(net)
        if step % 10 == 0:
            print(f"step {step}: v loss {loss.item():.3f}")
    ema.eval()
    with torch.no_grad():
        x = torch.randn(4, 1, 8, 8, device=device)
        angles = torch.linspace(math.pi / 2, 0, 11).tolist()
        for now, nxt in zip(angles[:-1], angles[1:]):
            v = ema(x, torch.full((4,), now / (math.pi / 2), device=device))
            x0, eps = math.cos(now) * x - math.sin(now) * v, math.sin(now) * x + math.cos(now) * v
            x = math.cos(nxt) * x0 + math.sin(nxt) * eps
    print("sampled range", round(x.min().item(), 2), round(x.max().item(), 2))


if __name__ == "__main__":
    main()
