import torch
import torch.nn as nn


class PointEncoder(nn.Module):
    """Encodes a random subset of the points to save memory."""

    def __init__(self, keep=32, width=48, classes=4):
        super().__init__()
        self.keep = keep
        self.mlp = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, classes)

    def subsample(self, points):
        n = points.size(1)
        if n <= self.keep:
            return points
        if self.training:
            idx = torch.randperm(n)[: self.keep]
        else:
            idx = torch.linspace(0, n - 1, self.keep).long()
        return points[:, idx]

    def forward(self, points):
        h = self.mlp(self.subsample(points))
        return self.head(h.amax(dim=1))


def make_shapes(n, points):
    kind = torch.arange(n) % 4
    x = torch.randn(n, points, 3)
    x = x / x.norm(dim=-1, keepdim=True)
    stretch = torch.ones(4, 3)
    stretch[1, 0] = 3.0
    stretch[2, 1] = 3.0
    stretch[3, 2] = 3.0
    return x * stretch[kind][:, None], kind


def main():
    torch.manual_seed(0)
    x, y = make_shapes(24, 100)
    model = PointEncoder()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(15):
        model.train()
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print("acc", (model(x).argmax(1) == y).float().mean().item())


if __name__ == "__main__":
    main()
