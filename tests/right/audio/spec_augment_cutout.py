"""SpecAugment on a batch of spectrograms: frequency and time masks by broadcasting, in training only."""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor, nn


@dataclass
class SpecBatch:
    spec: Tensor
    label: Optional[Tensor] = None


class SpecAugment(nn.Module):
    def __init__(self, max_freq: int = 4, max_time: int = 6, count: int = 2):
        super().__init__()
        self.max_freq, self.max_time, self.count = max_freq, max_time, count

    @staticmethod
    def _mask(n: int, size: int, widest: int, device: torch.device) -> Tensor:
        width = torch.randint(0, widest + 1, (n, 1), device=device)
        start = (torch.rand(n, 1, device=device) * (size - width + 1)).floor().long()
        axis = torch.arange(size, device=device)
        return (axis >= start) & (axis < start + width)

    def forward(self, spec: Tensor) -> Tensor:
        if not self.training:
            return spec
        n, f, t = spec.shape
        fill = spec.mean(dim=(1, 2), keepdim=True)
        hidden = torch.zeros(n, f, t, dtype=torch.bool, device=spec.device)
        for _ in range(self.count):
            hidden |= self._mask(n, f, self.max_freq, spec.device).unsqueeze(2)
            hidden |= self._mask(n, t, self.max_time, spec.device).unsqueeze(1)
        return torch.where(hidden, fill, spec)


class Net(nn.Module):
    def __init__(self, classes: int = 3):
        super().__init__()
        self.augment = SpecAugment()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, classes))

    def forward(self, batch: SpecBatch):
        logits = self.body(self.augment(batch.spec).unsqueeze(1))
        if batch.label is None:
            return logits, None
        return logits, nn.functional.cross_entropy(logits, batch.label)


def make(n: int, device: torch.device) -> SpecBatch:
    label = torch.randint(3, (n,), device=device)
    spec = 0.5 * torch.randn(n, 16, 24, device=device)
    band = (label * 5)[:, None] + torch.arange(5, device=device)
    spec[torch.arange(n, device=device)[:, None], band] += 1.0
    return SpecBatch(spec, label)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
    for i in range(40):
        _, loss = net(make(32, device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"{i}: {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        batch = make(100, device)
        logits, loss = net(batch)
        assert torch.equal(logits, net(SpecBatch(batch.spec))[0])
    print(f"loss {loss.item():.3f} accuracy {(logits.argmax(1) == batch.label).float().mean().item():.2f}")
