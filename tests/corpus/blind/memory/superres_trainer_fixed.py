# target: SRTrainer.fit
"""Training loop for x2 single-image super-resolution."""
import logging
from typing import Iterable, Tuple

import torch
from torch import nn
import torch.nn.functional as F

log = logging.getLogger(__name__)


def psnr(pred: torch.Tensor, target: torch.Tensor, max_val: float = 1.0) -> torch.Tensor:
    mse = F.mse_loss(pred, target)
    return 10 * torch.log10(max_val ** 2 / mse.clamp(min=1e-10))


class SubPixelNet(nn.Module):
    def __init__(self, channels: int = 32, blocks: int = 3, scale: int = 2):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(blocks))
        self.up = nn.Sequential(nn.Conv2d(channels, 3 * scale ** 2, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, lr_img):
        h = self.stem(lr_img)
        for conv in self.body:
            h = h + F.relu(conv(h))
        base = F.interpolate(lr_img, scale_factor=2, mode="bilinear", align_corners=False)
        return base + self.up(h)


class SRTrainer:
    def __init__(self, model: nn.Module, lr: float = 2e-4, device: str = "cpu"):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, betas=(0.9, 0.99))
        self.psnr_history = []

    def step(self, lr_img: torch.Tensor, hr_img: torch.Tensor) -> torch.Tensor:
        pred = self.model(lr_img)
        loss = F.l1_loss(pred, hr_img)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.psnr_history.append(psnr(pred, hr_img).item())
        return loss.detach()

    def fit(self, loader: Iterable[Tuple[torch.Tensor, torch.Tensor]], epochs: int, log_every: int = 100):
        self.model.train()
        for epoch in range(epochs):
            for i, (lr_img, hr_img) in enumerate(loader):
                loss = self.step(lr_img.to(self.device), hr_img.to(self.device))
                if i % log_every == 0:
                    log.info("epoch %d step %d l1 %.4f psnr %.2f",
                             epoch, i, loss.item(), float(self.psnr_history[-1]))
        return [float(p) for p in self.psnr_history]
