# target: script
# truth: The StepLR schedule is meant in epochs (step_size=5) but is stepped after every batch, so the learning rate is divided by ten every five batches and is practically zero within the first epochs; the model stops learning without an error.
"""Galaxy morphology classification: SGD with a step schedule."""
import torch
import torch.nn as nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

CONFIG = {
    "epochs": 12,
    "batch_size": 32,
    "lr": 0.05,
    "lr_drop_every": 5,  # epochs
    "lr_gamma": 0.1,
    "seed": 2,
}


def galaxies(n=320, size=24):
    """Elliptical (0), edge-on (1) and ring (2) light profiles plus noise."""
    axis = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    labels = torch.randint(0, 3, (n,))
    images = torch.empty(n, 1, size, size)
    for i, label in enumerate(labels.tolist()):
        if label == 0:
            light = torch.exp(-4 * (xx**2 + yy**2))
        elif label == 1:
            light = torch.exp(-(3 * xx**2 + 30 * yy**2))
        else:
            light = torch.exp(-30 * ((xx**2 + yy**2).sqrt() - 0.6) ** 2)
        images[i, 0] = light + 1.0 * torch.randn(size, size)
    return TensorDataset(images, labels)


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 6 * 6, 3),
    )


def main(cfg):
    torch.manual_seed(cfg["seed"])
    loader = DataLoader(galaxies(), batch_size=cfg["batch_size"], shuffle=True)
    model = make_model()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=0.9)
    scheduler = StepLR(optimizer, step_size=cfg["lr_drop_every"], gamma=cfg["lr_gamma"])
    for epoch in range(cfg["epochs"]):
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()  # error: DG709
            total += loss.item()
        print(f"epoch {epoch:2d}  loss {total / len(loader):.4f}  lr {scheduler.get_last_lr()[0]:.1e}")


if __name__ == "__main__":
    main(CONFIG)
