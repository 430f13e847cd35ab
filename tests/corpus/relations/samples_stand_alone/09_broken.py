import torch
import torch.nn as nn


def knn_features(points, feats, k):
    """Mean feature of the k nearest points, points (B, N, 3), feats (B, N, C) -> (B, N, C)."""
    b, n, c = feats.shape
    flat = points.reshape(b * n, 3)
    idx = torch.cdist(flat, flat).topk(k, largest=False).indices
    near = feats.reshape(b * n, c)[idx]
    return near.view(b, n, k, c).mean(dim=2)


class EdgeNet(nn.Module):
    def __init__(self, parts=4, width=32, k=6):
        super().__init__()
        self.k = k
        self.lift = nn.Linear(3, width)
        self.layers = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(2)])
        self.cls = nn.Linear(width, parts)

    def forward(self, points):
        h = torch.relu(self.lift(points))
        for layer in self.layers:
            h = torch.relu(layer(torch.cat([h, knn_features(points, h, self.k)], dim=-1)))
        return self.cls(h)


def main():
    torch.manual_seed(0)
    clouds = torch.randn(4, 48, 3)
    parts = (clouds[..., 0] > 0).long() + 2 * (clouds[..., 1] > 0).long()
    model = EdgeNet()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for it in range(8):
        out = model(clouds)
        loss = nn.functional.cross_entropy(out.flatten(0, 1), parts.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    iou = (out.argmax(-1) == parts).float().mean()
    print(f"{loss.item():.3f} {iou.item():.3f}")


if __name__ == "__main__":
    main()
