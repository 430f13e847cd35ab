# target: script
"""Training with a background reporter that prints running means of the logged values."""
import threading
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn


class RunMonitor:
    """Collects scalars from the training thread; a second thread reports them every `interval` seconds."""

    def __init__(self, interval=0.05):
        self.interval = interval
        self.lock = threading.Lock()
        self.total = defaultdict(float)
        self.count = defaultdict(int)
        self.finished = threading.Event()
        self.thread = threading.Thread(target=self._report, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.finished.set()
        self.thread.join()

    def add(self, name, value, weight=1):
        with self.lock:
            self.total[name] += value * weight
            self.count[name] += weight

    def mean(self, name):
        with self.lock:
            return self.total[name] / self.count[name]

    def snapshot(self):
        """Means of everything logged since the last snapshot."""
        with self.lock:
            means = {name: self.total[name] / n for name, n in self.count.items()}
            self.total.clear()
            self.count.clear()
        return means

    def _report(self):
        while not self.finished.wait(self.interval):
            means = self.snapshot()
            if means:
                print("  ".join(f"{name} {value:.4f}" for name, value in sorted(means.items())))


def train(model, steps, device, monitor, batch=64):
    gen = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        x = torch.rand(batch, 2, generator=gen)
        y = (x.sum(dim=1) > 1).long()
        logits = model(x.to(device))
        loss = F.cross_entropy(logits, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            monitor.add("loss", loss.item(), batch)
            monitor.add("lr", optimizer.param_groups[0]["lr"])


def main(steps=200):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)).to(device)
    with RunMonitor() as monitor:
        train(model, steps, device, monitor)
    for name, value in monitor.snapshot().items():
        print(f"last {name}: {value:.4f}")


if __name__ == "__main__":
    main()
