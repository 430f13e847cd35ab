# target: script
# truth: The optimizer is built before the classification head is replaced, so it holds the discarded head's parameters and the new head stays at its random initialisation; no error, only the backbone adapts and accuracy is lower than it should be.
"""Fine-tune a "pretrained" backbone for leaf disease classification."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Backbone(nn.Module):
    """Small ResNet-like network with a torchvision-style ``fc`` head."""

    def __init__(self, num_classes: int, width: int = 32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, x):
        h = self.stem(x)
        h = F.relu(h + self.bn1(self.conv1(h)))
        return self.fc(h.mean(dim=(2, 3)))


def load_pretrained() -> Backbone:
    """Stands in for reading an ImageNet checkpoint."""
    torch.manual_seed(7)
    return Backbone(num_classes=1000)


def leaf_images(n: int, seed: int) -> TensorDataset:
    """Five conditions that differ in colour cast and in spot density."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 5, (n,), generator=g)
    tint = torch.tensor([[0.2, 0.6, 0.2], [0.5, 0.5, 0.2], [0.2, 0.6, 0.2], [0.4, 0.3, 0.2], [0.5, 0.5, 0.2]])
    spots = torch.tensor([0.0, 0.0, 0.15, 0.05, 0.15])
    x = tint[y][:, :, None, None] + 0.1 * torch.randn(n, 3, 24, 24, generator=g)
    mask = torch.rand(n, 1, 24, 24, generator=g) < spots[y][:, None, None, None]
    return TensorDataset(x.masked_fill(mask, 0.0), y)


def replace_head(model: Backbone, num_classes: int) -> None:
    model.fc = nn.Linear(model.fc.in_features, num_classes)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    return sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / len(loader.dataset)


def main():
    model = load_pretrained()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)  # error: DG715
    replace_head(model, num_classes=5)

    train_loader = DataLoader(leaf_images(512, seed=1), batch_size=32, shuffle=True)
    val_loader = DataLoader(leaf_images(256, seed=2), batch_size=128)
    for epoch in range(4):
        model.train()
        total = 0.0
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(train_loader):.3f}, val acc {accuracy(model, val_loader):.3f}")
    return model


if __name__ == "__main__":
    main()
