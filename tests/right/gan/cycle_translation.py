"""CycleGAN in two dimensions: two generators in one optimizer, cycle and identity terms, an image pool."""
import itertools
import random

import torch
from torch import nn


class ImagePool:
    """Remembers past fakes; half of the time hands out an old one in place of the new."""

    def __init__(self, size):
        self.size, self.items = size, []

    def query(self, batch):
        out = []
        for row in batch.detach():
            if len(self.items) < self.size:
                self.items.append(row)
                out.append(row)
            elif random.random() < 0.5:
                i = random.randrange(self.size)
                out.append(self.items[i])
                self.items[i] = row
            else:
                out.append(row)
        return torch.stack(out)


def net(n_out):
    return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, n_out))


def set_requires_grad(nets, flag):
    for n in nets:
        n.requires_grad_(flag)


def lsgan(score, is_real):
    return nn.functional.mse_loss(score, torch.full_like(score, float(is_real)))


def main():
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    g_ab, g_ba, d_a, d_b = (net(k).to(device) for k in (2, 2, 1, 1))
    opt_g = torch.optim.Adam(itertools.chain(g_ab.parameters(), g_ba.parameters()), lr=3e-3)
    opt_d = torch.optim.Adam(itertools.chain(d_a.parameters(), d_b.parameters()), lr=3e-3)
    pool_a, pool_b = ImagePool(64), ImagePool(64)
    l1 = nn.L1Loss()
    shift = torch.tensor([1.0, -1.0], device=device)
    for it in range(60):
        a = 0.3 * torch.randn(16, 2, device=device)
        b = 0.3 * torch.randn(16, 2, device=device) + shift

        set_requires_grad([d_a, d_b], False)
        fake_b, fake_a = g_ab(a), g_ba(b)
        adversarial = lsgan(d_b(fake_b), True) + lsgan(d_a(fake_a), True)
        cycle = l1(g_ba(fake_b), a) + l1(g_ab(fake_a), b)
        identity = l1(g_ab(b), b) + l1(g_ba(a), a)
        loss_g = adversarial + 5 * cycle + identity
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()

        set_requires_grad([d_a, d_b], True)
        opt_d.zero_grad()
        for d, real, pooled in ((d_a, a, pool_a.query(fake_a)), (d_b, b, pool_b.query(fake_b))):
            half = 0.5 * (lsgan(d(real), True) + lsgan(d(pooled), False))
            half.backward()
        opt_d.step()
        if it % 20 == 0:
            print(f"{it}: generators {loss_g.item():.3f}, cycle {cycle.item():.3f}")


if __name__ == "__main__":
    main()
