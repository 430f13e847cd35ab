"""Standardise a stream of price ticks in chunks."""
import torch
import torch.nn as nn


class StreamStats(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.tensor(0.0))
        self.register_buffer("a", torch.tensor(0.0))
        self.register_buffer("b", torch.tensor(0.0))

    def push(self, x):
        self.n += x.numel()
        self.a += x.sum()
        self.b += x.pow(2).sum()

    def mean(self):
        return self.a / self.n

    def std(self):
        var = self.b / self.n - self.mean().pow(2)
        return var.clamp(min=1e-12).sqrt()

    def forward(self, x):
        return (x - self.mean()) / self.std()


def ticks(n, start=4200.0, step=0.02, seed=0):
    g = torch.Generator().manual_seed(seed)
    walk = torch.randn(n, generator=g, dtype=torch.float64).mul(step).cumsum(0)
    return (start + walk - walk.mean()).float()


def main():
    stats = StreamStats()
    series = ticks(4096)
    for chunk in series.split(256):
        stats.push(chunk)
    z = stats(series)
    print(f"mean {stats.mean():.3f} std {stats.std():.4f} range {z.min():.2f} .. {z.max():.2f}")


if __name__ == "__main__":
    main()
