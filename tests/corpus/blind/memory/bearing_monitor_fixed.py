# target: script
"""Bearing fault classification from vibration signals, with activation monitoring for the run report."""
import argparse
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F


class VibrationNet(nn.Module):
    def __init__(self, n_faults: int = 5, width: int = 32):
        super().__init__()
        self.block1 = nn.Sequential(nn.Conv1d(2, width, 15, stride=2, padding=7), nn.BatchNorm1d(width), nn.ReLU())
        self.block2 = nn.Sequential(nn.Conv1d(width, width, 7, stride=2, padding=3), nn.BatchNorm1d(width), nn.ReLU())
        self.block3 = nn.Sequential(nn.Conv1d(width, width, 7, stride=2, padding=3), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(width, n_faults)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.block3(self.block2(self.block1(x)))
        return self.head(h.mean(dim=2))


class ActivationMonitor:
    """Watches the spread of the activations, to spot dead or exploding layers."""

    def __init__(self, model: nn.Module, kinds=(nn.Sequential,)):
        self.records = defaultdict(list)
        self.handles = [
            module.register_forward_hook(self._make_hook(name))
            for name, module in model.named_modules()
            if name and isinstance(module, kinds)
        ]

    def _make_hook(self, name: str):
        def hook(module, inputs, output):
            self.records[name].append(output.detach().std().item())
        return hook

    def report(self) -> dict:
        return {
            name: sum(stds) / len(stds)
            for name, stds in self.records.items()
        }

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def signal_batch(batch_size: int, length: int):
    fault = torch.randint(0, 5, (batch_size,))
    t = torch.linspace(0, 1, length)
    freq = 10.0 * (fault + 1).view(-1, 1, 1)
    return torch.sin(2 * torch.pi * freq * t) + 0.5 * torch.randn(batch_size, 2, length), fault


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=1024)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = VibrationNet()
    monitor = ActivationMonitor(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        x, fault = signal_batch(args.batch_size, args.length)
        loss = F.cross_entropy(model(x), fault)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 10 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    print(monitor.report())
    monitor.close()


if __name__ == "__main__":
    main()
