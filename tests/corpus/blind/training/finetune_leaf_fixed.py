# target: script
"""Fine-tune a small pretrained backbone on a new set of leaf diseases."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SmallNet(nn.Module):
    def __init__(self, n_classes=20, width=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.classifier = nn.Linear(2 * width, n_classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def adapt_to_classes(model, n_classes, device):
    """Replaces the pretraining head by a fresh one."""
    model.classifier = nn.Linear(model.classifier.in_features, n_classes).to(device)
    return model


def make_optimizer(model, args):
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": args.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=args.lr, momentum=0.9)


def setup(args, device):
    model = SmallNet().to(device)
    if args.weights:
        model.load_state_dict(torch.load(args.weights, map_location=device, weights_only=True))
    model = adapt_to_classes(model, args.n_classes, device)
    optimizer = make_optimizer(model, args)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.3)
    return model, optimizer, scheduler


def leaves(n, n_classes, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, n_classes, (n,), generator=g)
    tint = torch.stack([torch.cos(2.1 * y), torch.sin(2.1 * y), y / n_classes], dim=1)
    return TensorDataset(tint[:, :, None, None] + 0.4 * torch.randn(n, 3, 12, 12, generator=g), y)


def parse_args(argv=None):
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--weights", default=None)
    p.add_argument("--n-classes", type=int, default=4)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--epochs", type=int, default=6)
    return p.parse_args(argv)


def main(argv=None):
    args = parse_args(argv)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, optimizer, scheduler = setup(args, device)
    loader = DataLoader(leaves(256, args.n_classes, 0), batch_size=32, shuffle=True)
    for epoch in range(args.epochs):
        model.train()
        running = torch.zeros((), device=device)
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.detach()
        scheduler.step()
        print(f"epoch {epoch}: loss {running.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
