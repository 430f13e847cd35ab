# source: https://github.com/Lightning-AI/torchmetrics/issues/3323
import argparse
import io

import torch
import torch.nn.functional as F
from torch import nn


class BinaryAccuracy(nn.Module):
    def __init__(self, threshold=0.5):
        super().__init__()
        self.threshold = threshold
        self.register_buffer("correct", torch.tensor(0))
        self.register_buffer("total", torch.tensor(0))

    def update(self, preds, target):
        self.correct += ((preds > self.threshold).long() == target).sum()
        self.total += target.numel()

    def compute(self):
        return self.correct / self.total.clamp(min=1)

    def reset(self):
        self.correct.zero_()
        self.total.zero_()


class MinMaxTracker(nn.Module):
    """Wraps a metric and follows the lowest and highest value it has computed."""

    def __init__(self, base_metric):
        super().__init__()
        self.base_metric = base_metric
        self.register_buffer("extremes", torch.tensor([float("inf"), float("-inf")]))

    def update(self, *args):
        self.base_metric.update(*args)

    def compute(self):
        value = self.base_metric.compute()
        low, high = self.extremes.unbind()
        self.extremes = torch.stack([torch.minimum(low, value), torch.maximum(high, value)])
        return {"raw": value, "min": self.extremes[0], "max": self.extremes[1]}

    def reset(self):
        self.base_metric.reset()


class Experiment:
    def __init__(self, args):
        self.args = args
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.val_acc = MinMaxTracker(BinaryAccuracy())
        self.epoch = 0

    def batch(self, n):
        x = torch.randn(n, 8)
        return x, (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()

    def train_epoch(self):
        self.model.train()
        for _ in range(self.args.iters):
            x, y = self.batch(64)
            loss = F.binary_cross_entropy_with_logits(self.model(x).squeeze(1), y.float())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        self.val_acc.reset()
        for _ in range(4):
            x, y = self.batch(256)
            self.val_acc.update(torch.sigmoid(self.model(x).squeeze(1)), y)
        return {k: round(v.item(), 4) for k, v in self.val_acc.compute().items()}

    def fit(self, epochs):
        while self.epoch < epochs:
            scores = self.validate()
            self.train_epoch()
            self.epoch += 1
            print(f"epoch {self.epoch} {scores}")

    def save(self, target):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        state.update(metrics=self.val_acc.state_dict(), epoch=self.epoch)
        torch.save(state, target)

    def load(self, source):
        state = torch.load(source, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.val_acc.load_state_dict(state["metrics"])
        self.epoch = state["epoch"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--iters", type=int, default=25)
    args = parser.parse_args()
    torch.manual_seed(0)
    first = Experiment(args)
    first.fit(3)
    checkpoint = io.BytesIO()
    first.save(checkpoint)
    checkpoint.seek(0)
    resumed = Experiment(args)
    resumed.load(checkpoint)
    print("resuming")
    resumed.fit(5)
