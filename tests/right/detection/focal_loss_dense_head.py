"""Focal loss on a dense head with the usual prior bias, normalized by the number of positives."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PRIOR = 0.05


def sigmoid_focal_loss(logits, targets, alpha=0.25, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p = logits.sigmoid()
    p_t = p * targets + (1 - p) * (1 - targets)
    a_t = alpha * targets + (1 - alpha) * (1 - targets)
    return (a_t * (1 - p_t) ** gamma * ce).sum()


class DenseDetector(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.tower = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU(inplace=True),
        )
        self.cls = nn.Conv2d(width, 1, 3, padding=1)
        nn.init.normal_(self.cls.weight, std=0.01)
        nn.init.constant_(self.cls.bias, -math.log((1 - PRIOR) / PRIOR))

    def forward(self, x):
        return self.cls(self.tower(x)).squeeze(1)


def scenes(n, device):
    """Images with two bright 2x2 dots; an image may have none. The target grid is half as fine."""
    img = 0.1 * torch.randn(n, 1, 16, 16, device=device)
    target = torch.zeros(n, 8, 8, device=device)
    cell = torch.randint(8, (n, 2, 2), device=device)
    present = torch.rand(n, device=device) < 0.8
    rows = torch.arange(n, device=device)[present]
    for k in range(2):
        y, x = cell[present, k].unbind(1)
        target[rows, y, x] = 1.0
        for dy in range(2):
            for dx in range(2):
                img[rows, 0, 2 * y + dy, 2 * x + dx] = 1.0
    return img, target


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DenseDetector().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(60):
        img, target = scenes(16, device)
        num_pos = target.sum().clamp(min=1.0)
        loss = sigmoid_focal_loss(model(img), target) / num_pos
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        img, target = scenes(64, device)
        found = model(img) > 0
        truth = target.bool()
        recall = (found & truth).sum() / truth.sum().clamp(min=1)
        precision = (found & truth).sum() / found.sum().clamp(min=1)
    print(f"precision {precision.item():.2f} recall {recall.item():.2f}")


if __name__ == "__main__":
    main()
