# target: script
# truth: The trainer moves the images, but not the masks: the loss meets a prediction on the GPU and a target on the
#   CPU.
"""Trainer of a small segmentation network."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    batch_size: int = 4
    lr: float = 1e-3
    epochs: int = 1
    device: str = "cuda" if torch.cuda.is_available() else "cpu"


class Segmenter(nn.Module):
    def __init__(self, channels: int = 3, width: int = 8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.up = nn.ConvTranspose2d(width, 1, 2, stride=2)

    def forward(self, images):
        return self.up(self.down(images))


def dice_bce(logits, masks):
    probabilities = logits.sigmoid()
    overlap = (probabilities * masks).sum(dim=(1, 2, 3))
    dice = 1 - (2 * overlap + 1) / (probabilities.sum(dim=(1, 2, 3)) + masks.sum(dim=(1, 2, 3)) + 1)
    return dice.mean() + nn.functional.binary_cross_entropy_with_logits(logits, masks)


class Trainer:
    def __init__(self, config: Config):
        self.config = config
        self.model = Segmenter().to(config.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.lr)

    def unpack(self, batch):
        images, masks = batch
        return images.to(self.config.device, non_blocking=True), masks  # error: DG205

    def fit(self, loader):
        self.model.train()
        for _ in range(self.config.epochs):
            for batch in loader:
                images, masks = self.unpack(batch)
                loss = dice_bce(self.model(images), masks)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


if __name__ == "__main__":
    config = Config()
    data = TensorDataset(torch.rand(8, 3, 16, 16), (torch.rand(8, 1, 16, 16) > 0.5).float())
    Trainer(config).fit(DataLoader(data, batch_size=config.batch_size, shuffle=True, pin_memory=True))
