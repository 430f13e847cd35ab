"""Train a small denoiser and keep an exponential moving average for sampling."""
import copy
import os
import tempfile

import torch
import torch.nn as nn


class Denoiser(nn.Module):
    def __init__(self, dim=2, hidden=48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim + 1, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, dim))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=-1))


class Experiment:
    def __init__(self, decay=0.95):
        self.decay = decay
        self.model = Denoiser()
        self.ema = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)

    def step(self, x, t, noise):
        noisy = (1 - t) * x + t * noise
        loss = (self.model(noisy, t) - noise).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for avg, p in zip(self.ema.parameters(), self.model.parameters()):
                avg.lerp_(p, 1 - self.decay)
        return loss.item()

    def save(self, path):
        torch.save({
            "model": self.model.state_dict(),
            "ema": self.ema.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }, path)

    def load(self, path):
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.ema.load_state_dict(state["ema"])
        self.optimizer.load_state_dict(state["optimizer"])


def batch(n=64):
    angle = torch.rand(n, 1) * 6.2832
    ring = torch.cat([angle.cos(), angle.sin()], dim=1)
    return ring, torch.rand(n, 1), torch.randn(n, 2)


def main():
    torch.manual_seed(0)
    run = Experiment()
    for _ in range(30):
        run.step(*batch())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        run.save(path)
        resumed = Experiment()
        resumed.load(path)
    x, t, noise = batch()
    for _ in range(3):
        run.step(x, t, noise)
        resumed.step(x, t, noise)
    print("sample of the run    ", run.ema(noise[:1], t[:1]).tolist())
    print("sample of the resumed", resumed.ema(noise[:1], t[:1]).tolist())


if __name__ == "__main__":
    main()
