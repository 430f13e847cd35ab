# target: Trainer.fit
"""Point-cloud classification with a small PointNet."""
from typing import Dict, List

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class PointNet(nn.Module):
    def __init__(self, n_classes: int = 6):
        super().__init__()
        self.local = nn.Sequential(
            nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.4), nn.Linear(32, n_classes))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """points: (B, N, 3)"""
        return self.head(self.local(points.transpose(1, 2)).amax(dim=-1))


class Trainer:
    def __init__(self, model: nn.Module, train_loader: DataLoader, val_loader: DataLoader, lr: float = 1e-3):
        self.model = model
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train_epoch(self) -> float:
        total = 0.0
        for points, labels in self.train_loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(points), labels)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(self.train_loader)

    @torch.no_grad()
    def validate(self) -> float:
        self.model.eval()
        hits = sum((self.model(p).argmax(1) == y).sum().item() for p, y in self.val_loader)
        return hits / len(self.val_loader.dataset)

    def fit(self, epochs: int = 3) -> List[Dict[str, float]]:
        log = []
        for epoch in range(epochs):
            self.model.train()
            loss = self.train_epoch()
            log.append({"epoch": epoch, "loss": loss, "val_acc": self.validate()})
        return log


def shapes(n: int, n_points: int = 128, n_classes: int = 6) -> TensorDataset:
    """Ellipsoids whose axes depend on the class."""
    labels = torch.randint(0, n_classes, (n,))
    axes = torch.rand(n_classes, 3, generator=torch.Generator().manual_seed(1)) + 0.3
    directions = nn.functional.normalize(torch.randn(n, n_points, 3), dim=-1)
    return TensorDataset(directions * axes[labels].unsqueeze(1), labels)


def build_trainer() -> Trainer:
    train_loader = DataLoader(shapes(192), batch_size=32, shuffle=True)
    return Trainer(PointNet(), train_loader, DataLoader(shapes(64), batch_size=64))


if __name__ == "__main__":
    torch.manual_seed(0)
    for row in build_trainer().fit():
        print(row)
