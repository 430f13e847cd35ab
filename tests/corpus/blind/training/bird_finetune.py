# target: finetune
# truth: The optimizer is built before the classification head is replaced, so it holds the parameters of the old head and the new head keeps its random initial weights for the whole training; only the backbone learns, and accuracy rises more slowly, silently.
"""Fine-tune a pretrained backbone on a small set of bird photographs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    """Small residual network; `fc` is the classification head."""

    def __init__(self, n_classes: int = 100, width: int = 16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.block1 = nn.Conv2d(width, width, 3, padding=1)
        self.block2 = nn.Conv2d(width, width, 3, padding=1)
        self.fc = nn.Linear(width, n_classes)

    def features(self, x):
        x = F.relu(self.stem(x))
        x = x + F.relu(self.block1(x))
        x = x + F.relu(self.block2(x))
        return x.mean(dim=(2, 3))

    def forward(self, x):
        return self.fc(self.features(x))


def load_pretrained() -> Backbone:
    """Stand-in for loading an ImageNet checkpoint."""
    torch.manual_seed(123)
    return Backbone()


def make_optimizer(model: nn.Module, lr: float = 0.01) -> torch.optim.Optimizer:
    decay = [p for p in model.parameters() if p.ndim > 1]
    no_decay = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": 1e-4}, {"params": no_decay, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=lr, momentum=0.9)


def bird_photos(n: int, n_species: int, size: int = 32):
    labels = torch.arange(n) % n_species
    tint = torch.rand(n_species, 3, 1, 1)
    images = tint[labels] + 0.2 * torch.randn(n, 3, size, size)
    return (images - images.mean()) / images.std(), labels


def finetune(n_species: int = 8, epochs: int = 10, batch_size: int = 32):
    model = load_pretrained()
    optimizer = make_optimizer(model)  # error: DG715
    model.fc = nn.Linear(model.fc.in_features, n_species)
    images, labels = bird_photos(256, n_species)
    model.train()
    for epoch in range(epochs):
        correct = 0
        for idx in torch.randperm(len(images)).split(batch_size):
            logits = model(images[idx])
            loss = F.cross_entropy(logits, labels[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == labels[idx]).sum().item()
        print(f"epoch {epoch}: train accuracy {correct / len(images):.3f}")
    return model


if __name__ == "__main__":
    finetune()
