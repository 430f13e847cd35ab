# target: script
"""Weld defect classification with strongly imbalanced classes."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ("ok", "porosity", "crack", "undercut")
PRIORS = torch.tensor([0.8, 0.1, 0.06, 0.04])


def synthetic_radiographs(n: int, seed: int) -> TensorDataset:
    g = torch.Generator().manual_seed(seed)
    y = torch.multinomial(PRIORS, n, replacement=True, generator=g)
    x = 0.3 * torch.randn(n, 1, 32, 32, generator=g)
    for i, c in enumerate(y.tolist()):
        r = int(torch.randint(4, 24, (1,), generator=g))
        if c == 1:
            x[i, 0, r:r + 4, r:r + 4] += 1.0
        elif c == 2:
            x[i, 0, r, 4:28] += 1.0
        elif c == 3:
            x[i, 0, 4:28, r] += 1.0
    return TensorDataset(x, y)


def inverse_frequency(labels: torch.Tensor, num_classes: int) -> torch.Tensor:
    counts = torch.bincount(labels, minlength=num_classes).float().clamp(min=1)
    return labels.numel() / (num_classes * counts)


def build_model(num_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool2d(1),
        nn.Flatten(), nn.Linear(32, num_classes),
    )


@torch.no_grad()
def recall(model, loader, device):
    model.eval()
    hit = torch.zeros(len(CLASSES))
    count = torch.zeros(len(CLASSES))
    for x, y in loader:
        pred = model(x.to(device)).argmax(dim=1).cpu()
        count += torch.bincount(y, minlength=len(CLASSES))
        hit += torch.bincount(y[pred == y], minlength=len(CLASSES))
    return hit / count.clamp(min=1)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set, val_set = synthetic_radiographs(768, seed=1), synthetic_radiographs(256, seed=2)
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=128)

    model = build_model(len(CLASSES)).to(device)
    criterion = nn.CrossEntropyLoss(weight=inverse_frequency(train_set.tensors[1], len(CLASSES))).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(3):
        model.train()
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        per_class = recall(model, val_loader, device)
        print(f"epoch {epoch}: " + ", ".join(f"{n} {r:.2f}" for n, r in zip(CLASSES, per_class.tolist())))


if __name__ == "__main__":
    main()
