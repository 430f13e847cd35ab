# target: Runner.run
"""Binary segmentation of synthetic blobs, evaluated with averaged weights."""
import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    steps: int = 12
    batch: int = 8
    size: int = 32
    decay: float = 0.9
    lr: float = 2e-3
    device: str = "cuda" if torch.cuda.is_available() else "cpu"


def blobs(batch, size, device):
    axis = torch.linspace(-1, 1, size, device=device)
    centre = torch.rand(batch, 2, 1, 1, device=device) - 0.5
    d2 = (axis[None, :, None] - centre[:, 0]) ** 2 + (axis[None, None, :] - centre[:, 1]) ** 2
    mask = (d2 < 0.15).float().unsqueeze(1)
    image = mask + 0.4 * torch.randn(batch, 1, size, size, device=device)
    return image, mask


def build_net(width=12):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=2, dilation=2), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, 1, 1),
    )


class Average:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for mean, value in zip(self.model.state_dict().values(), model.state_dict().values()):
            if mean.dtype.is_floating_point:
                mean.lerp_(value, 1 - self.decay)
            else:
                mean.copy_(value)


class Runner:
    def __init__(self, config=None):
        torch.manual_seed(1)
        self.config = config or Config()
        net = build_net()
        self.net = net.to(self.config.device)
        self.average = Average(net, self.config.decay)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=self.config.lr)

    def step(self):
        image, mask = blobs(self.config.batch, self.config.size, self.config.device)
        loss = F.binary_cross_entropy_with_logits(self.net(image), mask)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.average.update(self.net)
        return loss.item()

    @torch.no_grad()
    def evaluate(self):
        image, mask = blobs(32, self.config.size, self.config.device)
        guess = self.average.model(image) > 0
        hit = (guess & mask.bool()).sum().item()
        return 2 * hit / (guess.sum().item() + mask.sum().item() + 1e-6)

    def run(self):
        losses = [self.step() for _ in range(self.config.steps)]
        return losses[-1], self.evaluate()
