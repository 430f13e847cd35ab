# source: https://github.com/Lightning-AI/pytorch-lightning/issues/4098
# target: DiceCoefficient.update
# truth: the differentiable score of each batch is kept in the list state with its graph, so the activations of every
#   batch of the epoch stay alive until reset(): memory grows with each step and ends out of memory
import argparse

import torch
import torch.nn.functional as F
from torch import nn


def dice_per_class(probs, onehot, smooth=1e-5):
    dims = (2, 3)
    overlap = (probs * onehot).sum(dims)
    total = probs.sum(dims) + onehot.sum(dims)
    return (2 * overlap + smooth) / (total + smooth)


class DiceCoefficient(nn.Module):
    """Soft Dice that can be used as a loss and read out as a metric at the end of the epoch.

    Calling the object returns the value of the batch; ``compute`` averages everything since ``reset``.
    """

    def __init__(self, num_classes, include_background=False, reduction="mean"):
        super().__init__()
        self.num_classes = num_classes
        self.include_background = include_background
        self.reduction = reduction
        self.scores = []

    def _batch_scores(self, logits, target):
        probs = logits.softmax(dim=1)
        onehot = F.one_hot(target, self.num_classes).permute(0, 3, 1, 2).to(probs.dtype)
        scores = dice_per_class(probs, onehot)
        return scores if self.include_background else scores[:, 1:]

    def update(self, logits, target):
        scores = self._batch_scores(logits, target)
        self.scores.append(scores)  # culprit
        return scores

    def _reduce(self, scores):
        if self.reduction == "mean":
            return scores.mean()
        return scores.mean(0)

    def forward(self, logits, target):
        return self._reduce(self.update(logits, target))

    def compute(self):
        return self._reduce(torch.cat(self.scores))

    def reset(self):
        self.scores.clear()


class UNetSmall(nn.Module):
    def __init__(self, in_channels, num_classes, width=12):
        super().__init__()
        self.enc1 = self._block(in_channels, width)
        self.enc2 = self._block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec1 = self._block(2 * width, width)
        self.head = nn.Conv2d(width, num_classes, 1)

    @staticmethod
    def _block(cin, cout):
        return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        return self.head(self.dec1(torch.cat([self.up(e2), e1], dim=1)))


class SegmentationTask:
    def __init__(self, num_classes, lr, device):
        self.device = device
        self.module = UNetSmall(1, num_classes).to(device)
        self.dice = DiceCoefficient(num_classes).to(device)
        self.optimizer = torch.optim.Adam(self.module.parameters(), lr=lr)

    def training_step(self, x, y):
        y_hat = self.module(x)
        ce = F.cross_entropy(y_hat, y)
        dice = self.dice(y_hat, y)
        return ce + (1 - dice)

    def fit_epoch(self, batches):
        self.module.train()
        self.dice.reset()
        for x, y in batches:
            loss = self.training_step(x.to(self.device), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return self.dice.compute().item()


def blobs(n_batches, batch, size, num_classes):
    for _ in range(n_batches):
        noise = F.interpolate(torch.randn(batch, 1, size // 8, size // 8), scale_factor=8, mode="bilinear")
        levels = torch.linspace(-0.6, 0.6, num_classes - 1)
        mask = torch.bucketize(noise.squeeze(1).contiguous(), levels)
        yield noise + 0.2 * torch.randn_like(noise), mask


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--classes", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    task = SegmentationTask(args.classes, 5e-3, device)
    for epoch in range(args.epochs):
        score = task.fit_epoch(blobs(args.batches, 8, 32, args.classes))
        print(f"epoch {epoch} train dice {score:.4f}")
