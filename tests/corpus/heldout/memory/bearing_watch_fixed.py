# target: main
"""Watch vibration windows of a bearing and raise alarms on the reconstruction error."""
from collections import deque

import torch
from torch import nn


class WindowCoder(nn.Module):
    def __init__(self, length=1024, code=16):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv1d(1, 8, 9, stride=2, padding=4), nn.Tanh(),
            nn.Conv1d(8, 16, 9, stride=2, padding=4), nn.Tanh(),
        )
        self.code = nn.Linear(16 * length // 4, code)
        self.up = nn.Linear(code, length)

    def forward(self, x):
        h = self.down(x.unsqueeze(1)).flatten(1)
        return self.up(torch.tanh(self.code(h)))


class BearingMonitor:
    """Adapts slowly to the machine and keeps the recent scores for the threshold."""

    def __init__(self, coder, history=20000, sigma=6.0, adapt_every=16):
        self.coder = coder
        self.history = deque(maxlen=history)
        self.sigma = sigma
        self.adapt_every = adapt_every
        self.optimizer = torch.optim.SGD(coder.parameters(), lr=1e-3)
        self.alarms = []

    def score(self, window):
        return (self.coder(window[None]) - window).square().mean()

    def threshold(self):
        recent = torch.stack(list(self.history)[-200:])
        return recent.mean() + self.sigma * recent.std()

    def adapt(self, score):
        self.optimizer.zero_grad()
        score.backward()
        self.optimizer.step()

    def push(self, index, window):
        score = self.score(window)
        if len(self.history) > 50 and score > self.threshold():
            self.alarms.append(index)
            return True
        if index % self.adapt_every == 0:
            self.adapt(score)
        self.history.append(score.detach())
        return False


def windows(count, length=1024, defect_at=None, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length) / length
    for i in range(count):
        signal = torch.sin(2 * torch.pi * (30 * t + torch.rand(1, generator=g)))
        if defect_at is not None and i >= defect_at:
            signal = signal + 2 * (torch.arange(length) % 100 < 3)
        yield signal + 0.1 * torch.randn(length, generator=g)


def main(count=400):
    torch.manual_seed(0)
    monitor = BearingMonitor(WindowCoder())
    for i, window in enumerate(windows(count, defect_at=count - 20)):
        monitor.push(i, window)
    print(f"{len(monitor.history)} scores, alarms at {monitor.alarms[:5]}")
    return monitor


if __name__ == "__main__":
    main()
