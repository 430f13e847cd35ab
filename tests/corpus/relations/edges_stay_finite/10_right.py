"""Dense one-stage event detector on a 1-D signal."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Detector(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.ReLU(),
        )
        self.score = nn.Conv1d(width, 1, 1)
        self.offset = nn.Conv1d(width, 2, 1)

    def forward(self, signal):
        h = self.net(signal.unsqueeze(1))
        return self.score(h).squeeze(1), self.offset(h).transpose(1, 2)

    def loss(self, signal, positive, offset):
        score, pred = self(signal)
        objectness = F.binary_cross_entropy_with_logits(score, positive.float())
        regression = F.smooth_l1_loss(pred[positive], offset[positive], reduction="sum")
        return objectness + regression / (2 * positive.sum()).clamp(min=1)


def events(n, length=64, stride=4):
    signal = 0.1 * torch.randn(n, length)
    cells = length // stride
    positive = torch.zeros(n, cells, dtype=torch.bool)
    offset = torch.zeros(n, cells, 2)
    for i in range(n):
        start = int(torch.randint(0, length - 16, ()))
        size = int(torch.randint(6, 16, ()))
        signal[i, start:start + size] += 1.0
        center = start + size / 2
        cell = int(center // stride)
        positive[i, cell] = True
        offset[i, cell] = torch.tensor([center / stride - cell, size / 16])
    return signal, positive, offset


def train(model, steps=30, batch=16):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        loss = model.loss(*events(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train(Detector())
