# target: main
# truth: Session builds the optimizer from model.parameters() and replace_head swaps the classifier afterwards, so the new head is in no parameter group and never trains; silent, the head keeps its random weights and the accuracy stays low.
"""Transfer a small convolutional net from one plankton survey to another."""
import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self, classes, width=8):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.head = nn.Linear(8 * width, classes)

    def forward(self, x):
        return self.head(self.features(x))


def survey(classes, count, seed):
    """Each class is a texture with an angle and a frequency of its own."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (count,), generator=g)
    axis = torch.arange(16).float()
    angle = (torch.pi * y / classes).view(-1, 1, 1)
    wave = axis[None, :, None] * angle.cos() + axis[None, None, :] * angle.sin()
    phase = 6.28 * torch.rand(count, 1, 1, generator=g)
    x = torch.sin((0.7 + 0.15 * (y % 3)).view(-1, 1, 1) * wave + phase)
    return (x + 0.3 * torch.randn(x.shape, generator=g)).unsqueeze(1), y


def replace_head(model, classes):
    model.head = nn.Linear(model.head.in_features, classes)
    return model


class Session:
    def __init__(self, model, lr, backbone_lr=None):
        self.model = model
        backbone_lr = lr if backbone_lr is None else backbone_lr
        self.optimizer = torch.optim.Adam([
            {"params": list(model.features.parameters()), "lr": backbone_lr},
            {"params": list(model.head.parameters()), "lr": lr},
        ])

    def run(self, x, y, epochs, batch=32):
        for _ in range(epochs):
            for rows in torch.randperm(len(x)).split(batch):
                loss = nn.functional.cross_entropy(self.model(x[rows]), y[rows])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def accuracy(self, x, y):
        return (self.model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(0)
    model = Backbone(classes=4)
    source = Session(model, lr=3e-3)
    source.run(*survey(4, 400, seed=1), epochs=4)
    target = Session(model, lr=1e-2, backbone_lr=1e-4)
    target.model = replace_head(model, classes=9)  # error: DG715
    loss = target.run(*survey(9, 500, seed=2), epochs=6)
    print(f"loss {loss:.3f} accuracy {target.accuracy(*survey(9, 300, seed=3)):.3f}")
    return target


if __name__ == "__main__":
    main()
