# target: FineTuner.fit
"""Transfer learning: frozen backbone, new head for plant diseases."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LeafBackbone(nn.Module):
    """Stands in for a downloaded, pre-trained network."""

    def __init__(self, n_classes: int = 100):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.fc = nn.Linear(32 * 4, n_classes)

    def forward(self, x):
        return self.fc(self.layers(x))


def freeze(module: nn.Module) -> None:
    for p in module.parameters():
        p.requires_grad = False


class FineTuner:
    def __init__(self, model: LeafBackbone, n_classes: int, lr: float = 0.05):
        self.model = model
        freeze(self.model.layers)
        self._replace_head(n_classes)
        self.optimizer = torch.optim.SGD(self.model.fc.parameters(), lr=lr, momentum=0.9)

    def _replace_head(self, n_classes: int) -> None:
        self.model.fc = nn.Linear(self.model.fc.in_features, n_classes)

    def _step(self, images, labels):
        loss = F.cross_entropy(self.model(images), labels, label_smoothing=0.05)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, batches, epochs: int = 3):
        """batches: a list of (images, labels); returns the mean loss per epoch."""
        self.model.train()
        history = []
        for _ in range(epochs):
            losses = [self._step(images, labels) for images, labels in batches]
            history.append(sum(losses) / len(losses))
        return history


def synthetic_leaves(n_batches=8, batch_size=16, n_classes=4, seed=0):
    gen = torch.Generator().manual_seed(seed)
    tint = torch.rand(n_classes, 3, 1, 1, generator=gen) * 2
    batches = []
    for _ in range(n_batches):
        labels = torch.randint(0, n_classes, (batch_size,), generator=gen)
        batches.append((tint[labels] + 0.2 * torch.randn(batch_size, 3, 32, 32, generator=gen), labels))
    return batches
