"""Additive angular margin (ArcFace) with the cosine clamped inside its open interval."""
import math
from typing import Optional

import torch
from torch import Tensor, nn
import torch.nn.functional as F


class ArcMargin(nn.Module):
    def __init__(self, dim: int, classes: int, scale: float = 16.0, margin: float = 0.3):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, dim))
        nn.init.xavier_uniform_(self.weight)
        self.scale = scale
        self.cos_m, self.sin_m = math.cos(margin), math.sin(margin)
        self.threshold = math.cos(math.pi - margin)
        self.fallback = math.sin(math.pi - margin) * margin

    def forward(self, x: Tensor, labels: Optional[Tensor] = None) -> Tensor:
        cosine = F.linear(F.normalize(x, dim=1), F.normalize(self.weight, dim=1)).clamp(-1 + 1e-6, 1 - 1e-6)
        if labels is None:
            return self.scale * cosine
        sine = (1.0 - cosine.square()).sqrt()
        shifted = cosine * self.cos_m - sine * self.sin_m
        shifted = torch.where(cosine > self.threshold, shifted, cosine - self.fallback)
        one_hot = torch.zeros_like(cosine, dtype=torch.bool).scatter_(1, labels.view(-1, 1), True)
        return self.scale * torch.where(one_hot, shifted, cosine)


class Embedder(nn.Module):
    def __init__(self, n_in: int, dim: int):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 32), nn.PReLU(), nn.Linear(32, dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def batch(centers: Tensor, n: int):
    y = torch.randint(len(centers), (n,), device=centers.device)
    return centers[y] + 0.6 * torch.randn(n, centers.shape[1], device=centers.device), y


@torch.inference_mode()
def verification_gap(net: nn.Module, centers: Tensor) -> float:
    """Mean cosine of pairs of one class minus that of pairs of different classes."""
    net.eval()
    x, y = batch(centers, 120)
    z = F.normalize(net(x), dim=1)
    cos, same = z @ z.T, y[:, None] == y[None, :]
    off = ~torch.eye(120, dtype=torch.bool, device=x.device)
    return (cos[same & off].mean() - cos[~same].mean()).item()


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    centers = torch.randn(6, 10, device=device)
    net, head = Embedder(10, 8).to(device), ArcMargin(8, 6).to(device)
    opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.05, momentum=0.9, weight_decay=5e-4)
    for step in range(80):
        x, y = batch(centers, 48)
        loss = F.cross_entropy(head(net(x), y), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([*net.parameters(), *head.parameters()], 5.0)
        opt.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.3f}")
    print(f"gap of cosines {verification_gap(net, centers):.3f}")


if __name__ == "__main__":
    main()
