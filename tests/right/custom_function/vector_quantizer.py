"""A vector-quantized autoencoder: nearest code, straight-through gradients, EMA codebook with Laplace smoothing."""
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Quantized(NamedTuple):
    codes: Tensor
    loss: Tensor
    index: Tensor


class EMAQuantizer(nn.Module):
    def __init__(self, n_codes: int, dim: int, decay: float = 0.9, beta: float = 0.25, eps: float = 1e-5):
        super().__init__()
        self.decay, self.beta, self.eps = decay, beta, eps
        book = torch.randn(n_codes, dim)
        self.register_buffer("book", book)
        self.register_buffer("usage", torch.ones(n_codes))
        self.register_buffer("total", book.clone())

    @torch.no_grad()
    def _update(self, flat: Tensor, index: Tensor) -> None:
        count = torch.bincount(index, minlength=self.book.size(0)).to(flat.dtype)
        summed = torch.zeros_like(self.book).index_add_(0, index, flat)
        self.usage.lerp_(count, 1 - self.decay)
        self.total.lerp_(summed, 1 - self.decay)
        n = self.usage.sum()
        smoothed = (self.usage + self.eps) / (n + self.book.size(0) * self.eps) * n
        self.book.copy_(self.total / smoothed.unsqueeze(1))

    def forward(self, z: Tensor) -> Quantized:
        index = torch.cdist(z.detach(), self.book).argmin(dim=1)
        q = self.book[index]
        loss = self.beta * F.mse_loss(z, q)
        if self.training:
            self._update(z.detach(), index)
        return Quantized(z + (q - z).detach(), loss, index)


class VQAE(nn.Module):
    def __init__(self, n_in: int = 8, dim: int = 2, n_codes: int = 8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, dim))
        self.vq = EMAQuantizer(n_codes, dim)
        self.dec = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, n_in))

    def forward(self, x: Tensor):
        q = self.vq(self.enc(x))
        return self.dec(q.codes), q


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    prototypes = torch.randn(6, 8, device=device)
    model = VQAE().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(120):
        x = prototypes[torch.randint(6, (64,), device=device)] + 0.05 * torch.randn(64, 8, device=device)
        out, q = model(x)
        loss = F.mse_loss(out, x) + q.loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0:
            p = torch.bincount(q.index, minlength=8).float() / 64
            perplexity = torch.exp(-(p * p.clamp(min=1e-10).log()).sum())
            print(f"step {step}: loss {loss.item():.3f}, perplexity {perplexity.item():.2f}")


if __name__ == "__main__":
    main()
