import torch
import torch.nn as nn


class SharedMLP(nn.Sequential):
    def __init__(self, *dims):
        layers = []
        for a, b in zip(dims[:-1], dims[1:]):
            layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()]
        super().__init__(*layers)


class PointSetClassifier(nn.Module):
    """PointNet-like classifier on padded point sets of different size."""

    def __init__(self, num_classes=5):
        super().__init__()
        self.mlp = SharedMLP(3, 32, 64)
        self.head = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, num_classes))

    def forward(self, points, mask):
        # points (B, N, 3), mask (B, N) bool
        feat = self.mlp(points)
        m = mask.unsqueeze(-1)
        avg = (feat * m).sum(1) / m.sum(1).clamp(min=1)
        top = feat.masked_fill(~m, float("-inf")).max(dim=1).values
        return self.head(torch.cat([avg, top], dim=-1))


def collate(clouds):
    n = max(len(c) for c in clouds)
    pts = torch.zeros(len(clouds), n, 3)
    mask = torch.zeros(len(clouds), n, dtype=torch.bool)
    for i, c in enumerate(clouds):
        pts[i, : len(c)] = c
        mask[i, : len(c)] = True
    return pts, mask


def main():
    torch.manual_seed(0)
    clouds = [torch.randn(n, 3) + 2.0 for n in (40, 25, 33, 12)]
    labels = torch.tensor([0, 1, 2, 3])
    model = PointSetClassifier()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pts, mask = collate(clouds)
    for epoch in range(5):
        loss = nn.functional.cross_entropy(model(pts, mask), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(epoch, round(loss.item(), 4))


if __name__ == "__main__":
    main()
