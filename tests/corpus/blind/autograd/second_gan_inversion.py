# target: invert
# truth: The latent is scaled after requires_grad=True, so it is the result of an operation and not a leaf;
#   the optimizer refuses it: ValueError "can't optimize a non-leaf Tensor".
"""GAN inversion: find the latent code whose image is closest to a target picture."""
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class InversionConfig:
    steps: int = 100
    lr: float = 0.05
    init_scale: float = 0.1
    latent_reg: float = 1e-3


class Generator(nn.Module):
    """Small DCGAN generator, 16x16 RGB images."""

    def __init__(self, z_dim: int = 32, width: int = 16):
        super().__init__()
        self.z_dim = z_dim
        self.net = nn.Sequential(
            nn.ConvTranspose2d(z_dim, width * 2, 4),
            nn.BatchNorm2d(width * 2),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(width * 2, width, 4, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    def forward(self, z: Tensor) -> Tensor:
        return self.net(z[:, :, None, None])


def total_variation(img: Tensor) -> Tensor:
    dh = (img[..., 1:, :] - img[..., :-1, :]).abs().mean()
    dw = (img[..., :, 1:] - img[..., :, :-1]).abs().mean()
    return dh + dw


def invert(generator: Generator, target: Tensor, cfg: InversionConfig = InversionConfig()) -> tuple[Tensor, list[float]]:
    """Returns the latent codes (B, z_dim) and the reconstruction error per step."""
    generator.eval()
    for p in generator.parameters():
        p.requires_grad_(False)

    z = torch.randn(target.size(0), generator.z_dim, device=target.device, requires_grad=True) * cfg.init_scale  # error: DG110
    optimizer = torch.optim.Adam([z], lr=cfg.lr)
    history = []
    for _ in range(cfg.steps):
        image = generator(z)
        rec = (image - target).square().mean()
        loss = rec + cfg.latent_reg * z.square().mean() + 0.01 * total_variation(image)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(rec.item())
    return z.detach(), history
