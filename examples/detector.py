"""Score boxes. In-place writes, devices and shapes: what raises here raises on other lines than it was made."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Detector(nn.Module):
    def __init__(self, channels: int = 16):
        super().__init__()
        self.backbone = nn.Conv2d(3, channels, 3, padding=1)
        self.score = nn.Linear(channels, 1)
        self.anchors = torch.linspace(0.1, 1.0, channels)

    def forward(self, images):
        features = self.backbone(images).mean(dim=(2, 3))
        weights = torch.exp(features)
        weights.clamp_(max=10.0)
        return self.score(weights * self.anchors)


def objectness_loss(scores, present):
    probabilities = torch.sigmoid(scores)
    return -(present * torch.log(probabilities)).mean()


def size_loss():
    sizes = torch.rand(8, 1, device="cuda", requires_grad=True)
    wanted = torch.rand(8, device="cuda")
    return F.mse_loss(sizes, wanted)


def main():
    model = Detector().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []
    for _ in range(1000):
        images = torch.randn(8, 3, 64, 64)
        present = torch.ones(8, 1)
        scores = model(images)
        loss = objectness_loss(scores, present) + size_loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss)
    print(f"mean loss {torch.stack(history).mean():.3f}")


if __name__ == "__main__":
    main()
