"""Residual blocks modulated by an embedding tensor (FiLM), their last layer zero at the start."""
from abc import abstractmethod

import torch
import torch.nn as nn
import torch.nn.functional as F


class EmbedModule(nn.Module):
    @abstractmethod
    def forward(self, x, emb):
        """Apply the module to `x` given the embedding `emb`."""


class EmbedSequential(nn.Sequential, EmbedModule):
    def forward(self, x, emb):
        for layer in self:
            x = layer(x, emb) if isinstance(layer, EmbedModule) else layer(x)
        return x


def zero_module(module):
    for p in module.parameters():
        nn.init.zeros_(p)
    return module


class ResBlock(EmbedModule):
    def __init__(self, channels, emb_channels, out_channels=None):
        super().__init__()
        out_channels = out_channels or channels
        self.in_layers = nn.Sequential(nn.GroupNorm(4, channels), nn.SiLU(), nn.Conv2d(channels, out_channels, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(emb_channels, 2 * out_channels))
        self.out_norm = nn.GroupNorm(4, out_channels)
        self.out_rest = nn.Sequential(nn.SiLU(), zero_module(nn.Conv2d(out_channels, out_channels, 3, padding=1)))
        self.skip = nn.Identity() if out_channels == channels else nn.Conv2d(channels, out_channels, 1)

    def forward(self, x, emb):
        h = self.in_layers(x)
        emb_out = self.emb_layers(emb).type(h.dtype)
        while emb_out.dim() < h.dim():
            emb_out = emb_out[..., None]
        scale, shift = emb_out.chunk(2, dim=1)
        h = self.out_norm(h) * (1 + scale) + shift
        return self.skip(x) + self.out_rest(h)


class Colorist(nn.Module):
    """Given a grey image and the number of a filter, produces the filtered image."""

    def __init__(self, filters, c=8, emb=16):
        super().__init__()
        self.embed = nn.Embedding(filters, emb)
        self.body = EmbedSequential(nn.Conv2d(1, c, 3, padding=1), ResBlock(c, emb), ResBlock(c, emb, 2 * c))
        self.out = nn.Conv2d(2 * c, 1, 1)

    def forward(self, x, which):
        return self.out(self.body(x, self.embed(which)))


def apply_filter(x, which):
    options = torch.stack([x, -x, F.avg_pool2d(x, 3, 1, 1)])
    return options[which, torch.arange(x.size(0), device=x.device)]


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Colorist(3).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for step in range(40):
        x = torch.randn(12, 1, 8, 8, device=device)
        which = torch.randint(3, (12,), device=device)
        loss = F.mse_loss(net(x, which), apply_filter(x, which))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
