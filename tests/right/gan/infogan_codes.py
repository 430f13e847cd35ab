"""InfoGAN: a shared trunk scores realness and recovers the categorical and continuous codes."""
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class Codes(NamedTuple):
    noise: torch.Tensor
    cat: torch.Tensor
    cont: torch.Tensor


class DQ(nn.Module):
    def __init__(self, n_cat):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.1))
        self.d, self.q_cat, self.q_mu = nn.Linear(48, 1), nn.Linear(48, n_cat), nn.Linear(48, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.d(h), self.q_cat(h), self.q_mu(h)


class Gen(nn.Module):
    def __init__(self, n_cat):
        super().__init__()
        self.n_cat = n_cat
        self.net = nn.Sequential(nn.Linear(3 + n_cat + 1, 48), nn.ReLU(), nn.Linear(48, 2))

    def forward(self, c: Codes):
        one_hot = F.one_hot(c.cat, self.n_cat).to(c.noise.dtype)
        return self.net(torch.cat([c.noise, one_hot, c.cont], dim=1))


def draw_codes(n, n_cat, device):
    return Codes(
        torch.randn(n, 3, device=device),
        torch.randint(n_cat, (n,), device=device),
        torch.rand(n, 1, device=device) * 2 - 1,
    )


def main(n_cat=3, steps=150, batch=48):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gen, dq = Gen(n_cat).to(device), DQ(n_cat).to(device)
    bce = nn.BCEWithLogitsLoss()
    d_params = [*dq.trunk.parameters(), *dq.d.parameters()]
    g_params = [*gen.parameters(), *dq.q_cat.parameters(), *dq.q_mu.parameters()]
    opt_d, opt_g = torch.optim.Adam(d_params, 2e-3), torch.optim.Adam(g_params, 2e-3)
    one, zero = torch.ones(batch, 1, device=device), torch.zeros(batch, 1, device=device)
    for step in range(steps):
        side = torch.randint(n_cat, (batch, 1), device=device) - 1.0
        real = torch.cat([side * 2, torch.rand(batch, 1, device=device)], dim=1)
        codes = draw_codes(batch, n_cat, device)
        fake = gen(codes)

        opt_d.zero_grad()
        loss_d = bce(dq(real)[0], one) + bce(dq(fake.detach())[0], zero)
        loss_d.backward()
        opt_d.step()

        opt_g.zero_grad()
        score, cat_logits, mu = dq(fake)
        info = F.cross_entropy(cat_logits, codes.cat) + 0.5 * F.mse_loss(mu, codes.cont)
        loss_g = bce(score, one) + info
        loss_g.backward()
        opt_g.step()
        if step % 50 == 0:
            print(f"{step}: D {loss_d.item():.3f} G {loss_g.item():.3f} info {info.item():.3f}")


if __name__ == "__main__":
    main()
