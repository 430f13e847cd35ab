"""Pixel classification of satellite-like tiles with class weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def tiles(n, size=12, seed=0):
    g = torch.Generator().manual_seed(seed)
    image = torch.randn(n, 3, size, size, generator=g)
    label = (image[:, 0] > 1.2).long() + (image[:, 1] > 1.8).long()
    return image, label


class SegNet(nn.Module):
    def __init__(self, classes=3, width=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, classes, 1),
        )

    def forward(self, x):
        return self.net(x)


class SegTrainer:
    def __init__(self, model, class_weight, lr=0.1, micro=4):
        self.model = model
        self.class_weight = class_weight
        self.micro = micro
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def run_batch(self, image, label):
        self.optimizer.zero_grad()
        pieces = list(zip(image.split(self.micro), label.split(self.micro)))
        total = 0.0
        norm = self.class_weight[label].sum()
        for x, y in pieces:
            loss = F.cross_entropy(
                self.model(x), y, weight=self.class_weight, reduction="sum")
            loss = loss / norm
            loss.backward()
            total += loss.item()
        self.optimizer.step()
        return total


def main():
    torch.manual_seed(0)
    image, label = tiles(32)
    freq = torch.bincount(label.flatten(), minlength=3).float()
    trainer = SegTrainer(SegNet(), (freq.sum() / (3 * freq)).clamp(max=20.0))
    for epoch in range(3):
        order = torch.randperm(len(image))
        for idx in order.split(16):
            loss = trainer.run_batch(image[idx], label[idx])
        print(f"epoch {epoch} loss {loss:.4f}")


if __name__ == "__main__":
    main()
