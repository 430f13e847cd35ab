# target: AssayTrainer.fit
"""Many biological assays predicted from one molecular fingerprint."""
from collections import OrderedDict

import torch
from torch import nn


class Fingerprints:
    """Sparse labels: most molecules were tested in a few assays only."""

    def __init__(self, count=600, bits=128, assays=("herg", "cyp3a4", "ames", "logd"), seed=0):
        g = torch.Generator().manual_seed(seed)
        self.names = assays
        self.bits = (torch.rand(count, bits, generator=g) < 0.15).float()
        rule = torch.randn(bits, len(assays), generator=torch.Generator().manual_seed(42)) * 0.5
        clean = (self.bits - 0.15) @ rule
        self.values = clean + 0.1 * torch.randn(clean.shape, generator=g)
        self.tested = torch.rand(count, len(assays), generator=g) < 0.5


class AssayNet(nn.Module):
    def __init__(self, bits, assays, width=32):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(bits, width), nn.ReLU(), nn.LayerNorm(width))
        self.heads = nn.ModuleDict((name, self.make_head(width)) for name in assays)

    @staticmethod
    def make_head(width):
        return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, bits):
        shared = self.shared(bits)
        return torch.cat([head(shared) for head in self.heads.values()], dim=1)


def masked_mse(pred, values, tested):
    error = (pred - values).square() * tested
    return error.sum() / tested.sum().clamp_min(1)


class AssayTrainer:
    def __init__(self, data=None, lr=3e-3, batch=50):
        torch.manual_seed(0)
        self.data = data or Fingerprints()
        self.model = AssayNet(self.data.bits.shape[1], self.data.names)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.batch = batch

    def batches(self):
        order = torch.randperm(len(self.data.bits))
        for rows in order.split(self.batch):
            yield self.data.bits[rows], self.data.values[rows], self.data.tested[rows]

    def fit(self, epochs=20):
        for _ in range(epochs):
            for bits, values, tested in self.batches():
                self.optimizer.zero_grad()
                loss = masked_mse(self.model(bits), values, tested)
                loss.backward()
                self.optimizer.step()
        return self.r2(Fingerprints(seed=1))

    @torch.no_grad()
    def r2(self, data):
        self.model.eval()
        error = (self.model(data.bits) - data.values).square().mean(0)
        spread = data.values.var(0)
        return {n: round(v, 3) for n, v in zip(data.names, (1 - error / spread).tolist())}


if __name__ == "__main__":
    print(AssayTrainer().fit())
