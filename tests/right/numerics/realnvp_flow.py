"""A normalizing flow of affine couplings on two moons: exact likelihood, exact inverse, bounded scales."""
import math

import torch
import torch.nn as nn


class AffineCoupling(nn.Module):
    def __init__(self, mask, hidden=32):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 4))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def params(self, x):
        s, t = self.net(x * self.mask).chunk(2, dim=1)
        return torch.tanh(s) * (1 - self.mask), t * (1 - self.mask)

    def forward(self, x):
        s, t = self.params(x)
        return x * s.exp() + t, s.sum(dim=1)

    def inverse(self, y):
        s, t = self.params(y)  # the masked part is untouched, so both directions see the same
        return (y - t) * (-s).exp()


class Flow(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        masks = [torch.tensor([1.0, 0.0]) if i % 2 == 0 else torch.tensor([0.0, 1.0]) for i in range(depth)]
        self.layers = nn.ModuleList([AffineCoupling(m) for m in masks])

    def log_prob(self, x):
        log_det = x.new_zeros(x.size(0))
        for layer in self.layers:
            x, ld = layer(x)
            log_det = log_det + ld
        base = -0.5 * x.square().sum(dim=1) - math.log(2 * math.pi)
        return base + log_det

    def to_latent(self, x):
        for layer in self.layers:
            x, _ = layer(x)
        return x

    @torch.no_grad()
    def sample(self, n):
        x = torch.randn(n, 2, device=self.layers[0].mask.device)
        for layer in reversed(self.layers):
            x = layer.inverse(x)
        return x


def moons(n, device):
    t = torch.rand(n, device=device) * math.pi
    side = torch.randint(2, (n,), device=device) * 2.0 - 1.0
    x = torch.stack([t.cos() * side + 0.5 * (1 - side), t.sin() * side + 0.25 * (1 - side)], dim=1)
    return x + 0.08 * torch.randn_like(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    flow = Flow().to(device)
    opt = torch.optim.Adam(flow.parameters(), lr=5e-3)
    for step in range(120):
        loss = -flow.log_prob(moons(128, device)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            print(f"step {step}: nll {loss.item():.3f}")
    x = flow.sample(200)
    with torch.no_grad():
        z = flow.to_latent(x)
        for layer in reversed(flow.layers):
            z = layer.inverse(z)
    torch.testing.assert_close(z, x, atol=1e-3, rtol=1e-3)
    print("samples", tuple(x.shape), "std", [round(v, 2) for v in x.std(dim=0).tolist()])
