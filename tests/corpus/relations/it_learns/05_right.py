"""Lookahead around Adam on the two-spirals problem."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def spirals(n=100):
    t = torch.linspace(0.5, 2.5 * math.pi, n)
    one = torch.stack([t * t.cos(), t * t.sin()], dim=1) / 8
    x = torch.cat([one, -one])
    y = torch.cat([torch.zeros(n), torch.ones(n)]).long()
    return x + 0.02 * torch.randn_like(x), y


class Lookahead:
    def __init__(self, params, inner, k=5, alpha=0.5):
        self.params = list(params)
        self.inner, self.k, self.alpha = inner, k, alpha
        self.slow = [p.detach().clone() for p in self.params]
        self.count = 0

    def zero_grad(self):
        self.inner.zero_grad(set_to_none=True)

    @torch.no_grad()
    def step(self):
        self.inner.step()
        self.count += 1
        if self.count % self.k:
            return
        for slow, fast in zip(self.slow, self.params):
            slow.lerp_(fast, self.alpha)
            fast.copy_(slow)


def build(hidden=32):
    return nn.Sequential(
        nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
        nn.Linear(hidden, 2))


def train(model, x, y, steps=100):
    params = list(model.parameters())
    optimizer = Lookahead(params, torch.optim.Adam(params, lr=5e-3))
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.manual_seed(0)
    x, y = spirals()
    losses = train(build(), x, y)
    print(" ".join(f"{v:.3f}" for v in losses[::20]))


if __name__ == "__main__":
    main()
