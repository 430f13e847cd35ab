"""Non-saturating GAN with a lazy R1 penalty and an averaged generator for sampling."""
import copy

import torch
import torch.nn.functional as F
from torch import nn

R1_EVERY, R1_GAMMA, EMA_BETA = 4, 1.0, 0.98


class Trainer:
    def __init__(self, device):
        self.device = device
        self.G = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2)).to(device)
        self.D = nn.Sequential(nn.Linear(2, 32), nn.Softplus(), nn.Linear(32, 1)).to(device)
        self.G_ema = copy.deepcopy(self.G).eval().requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.G.parameters(), 2e-3, betas=(0.0, 0.99))
        # the lazy penalty comes every few steps only, so rates are adjusted as in StyleGAN2
        c = R1_EVERY / (R1_EVERY + 1)
        self.opt_d = torch.optim.Adam(self.D.parameters(), 2e-3 * c, betas=(0.0, 0.99**c))

    def z(self, n):
        return torch.randn(n, 4, device=self.device)

    def d_step(self, real):
        with torch.no_grad():
            fake = self.G(self.z(len(real)))
        loss = F.softplus(self.D(fake)).mean() + F.softplus(-self.D(real)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def r1_step(self, real):
        x = real.detach().clone().requires_grad_()
        (g,) = torch.autograd.grad(self.D(x).sum(), x, create_graph=True)
        penalty = g.square().sum(dim=1).mean()
        self.opt_d.zero_grad()
        (0.5 * R1_GAMMA * R1_EVERY * penalty).backward()
        self.opt_d.step()

    def g_step(self, n):
        loss = F.softplus(-self.D(self.G(self.z(n)))).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        self.update_ema()
        return loss.detach()

    @torch.no_grad()
    def update_ema(self):
        for e, p in zip(self.G_ema.parameters(), self.G.parameters()):
            e.copy_(p.lerp(e, EMA_BETA))


def main():
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    t = Trainer(device)
    spread = torch.tensor([1.0, 0.2], device=device)
    for step in range(120):
        real = torch.randn(64, 2, device=device) * spread
        d = t.d_step(real)
        if step % R1_EVERY == 0:
            t.r1_step(real)
        g = t.g_step(64)
        if step % 40 == 0:
            print(f"step {step}: D {d.item():.3f} G {g.item():.3f}")
    with torch.no_grad():
        std = t.G_ema(t.z(500)).std(dim=0)
    print("std of samples", [round(v, 2) for v in std.tolist()])


if __name__ == "__main__":
    main()
