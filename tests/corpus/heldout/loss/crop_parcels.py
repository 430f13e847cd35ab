# target: train
# truth: the head ends in nn.Softmax while the criterion is NLLLoss, which takes log-probabilities; silent, the loss is negative (between -1 and 0) and learning is slower with a bounded, saturating gradient.
"""Classify crop parcels from a season of vegetation indices."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CROPS = ("wheat", "maize", "rape", "beet", "grass")


def season_curves(n, seed, dates=24):
    g = torch.Generator().manual_seed(seed)
    crop = torch.randint(0, len(CROPS), (n,), generator=g)
    t = torch.linspace(0, 1, dates)
    peak = 0.3 + 0.1 * crop.float() + 0.04 * torch.randn(n, generator=g)
    width = 0.12 + 0.03 * (crop % 3).float()
    ndvi = torch.exp(-((t - peak[:, None]) / width[:, None]) ** 2)
    red_edge = 0.5 * ndvi + 0.1 * t
    x = torch.stack([ndvi, red_edge], dim=1)
    return x + 0.1 * torch.randn(x.shape, generator=g), crop


class TempCNN(nn.Module):
    def __init__(self, channels=2, width=16, classes=len(CROPS)):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(channels, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.AdaptiveAvgPool1d(4), nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(4 * width, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, classes),
            nn.Softmax(dim=1),  # error: DG308
        )

    def forward(self, x):
        return self.head(self.features(x))


def make_criterion(labels):
    count = torch.bincount(labels, minlength=len(CROPS)).float()
    return nn.NLLLoss(weight=count.sum() / (len(CROPS) * count.clamp_min(1)))


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def train(epochs=4, lr=1e-3):
    torch.manual_seed(0)
    x, y = season_curves(600, seed=1)
    model = TempCNN()
    criterion = make_criterion(y)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr * 10, momentum=0.9)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(xb)
        print(f"epoch {epoch} loss {running / len(x):.4f} acc {accuracy(model, *season_curves(400, 2)):.3f}")
    return model


if __name__ == "__main__":
    train()
