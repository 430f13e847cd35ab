# target: script
# truth: evaluate() puts the model in eval mode and nothing sets it back, so from the second epoch on training runs without dropout and with frozen batch-norm statistics; no error, silently different training.
"""Keyword spotting on synthetic log-mel patches."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 6


class ToneDataset(Dataset):
    """Each class is a ridge at its own mel band, in noise of varying level."""

    def __init__(self, n: int, seed: int):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, CLASSES, (n,), generator=g)
        self.mels = torch.randn(n, 1, 32, 40, generator=g)
        start = torch.randint(0, 20, (n,), generator=g)
        for i in range(n):
            band = 3 + 5 * int(self.labels[i])
            s = int(start[i])
            self.mels[i, 0, band:band + 2, s:s + 15] += 1.5

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.mels[i], self.labels[i]


class SpotNet(nn.Module):
    def __init__(self, width: int = 16, dropout: float = 0.3):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d((8, 1)), nn.Flatten(), nn.Dropout(dropout),
            nn.Linear(16 * width, CLASSES),
        )

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def train(model: nn.Module, train_loader: DataLoader, val_loader: DataLoader, epochs: int = 4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss()
    model.train()  # error: DG710
    for epoch in range(epochs):
        running = 0.0
        for x, y in train_loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        acc = evaluate(model, val_loader)
        print(f"epoch {epoch}: train loss {running / len(train_loader):.3f}, val acc {acc:.3f}")


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(ToneDataset(512, seed=1), batch_size=64, shuffle=True)
    val_loader = DataLoader(ToneDataset(256, seed=2), batch_size=128)
    train(SpotNet(), train_loader, val_loader)


if __name__ == "__main__":
    main()
