# target: script
# truth: Silently wrong: the optimizer is built before the classification head is replaced, so the new head's parameters are not in it and stay at their random initialisation; only the backbone is trained.
"""Fine-tune a pretrained backbone on a small flower dataset."""
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

config = {
    "num_classes": 8,
    "pretrained_classes": 100,
    "lr": 1e-3,
    "weight_decay": 0.01,
    "epochs": 3,
    "batch_size": 16,
}


class Backbone(nn.Module):
    """Stand-in for the in-house image encoder; comes with a 100-class head."""

    def __init__(self, n_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.head = nn.Linear(32, n_classes)

    def forward(self, x):
        return self.head(self.features(x))


class FineTuner:
    def __init__(self, pretrained, cfg):
        self.cfg = cfg
        self.model = copy.deepcopy(pretrained)
        self.optimizer = torch.optim.AdamW(  # error: DG715
            self.model.parameters(), lr=cfg["lr"], weight_decay=cfg["weight_decay"]
        )
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=cfg["epochs"])
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.replace_head(cfg["num_classes"])

    def replace_head(self, num_classes):
        self.model.head = nn.Linear(self.model.head.in_features, num_classes)

    def fit(self, loader):
        for epoch in range(self.cfg["epochs"]):
            self.model.train()
            total, correct, seen = 0.0, 0, 0
            for x, y in loader:
                logits = self.model(x)
                loss = self.criterion(logits, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item() * len(y)
                correct += (logits.argmax(1) == y).sum().item()
                seen += len(y)
            self.scheduler.step()
            print(f"epoch {epoch}: loss {total / seen:.4f} acc {correct / seen:.3f}")


def make_loader(n, cfg):
    y = torch.randint(0, cfg["num_classes"], (n,))
    colour = torch.rand(cfg["num_classes"], 3, 1, 1)
    x = colour[y] + 0.2 * torch.randn(n, 3, 32, 32)
    return DataLoader(TensorDataset(x, y), batch_size=cfg["batch_size"], shuffle=True)


def main():
    torch.manual_seed(3)
    pretrained = Backbone(config["pretrained_classes"])
    tuner = FineTuner(pretrained, config)
    tuner.fit(make_loader(320, config))


if __name__ == "__main__":
    main()
