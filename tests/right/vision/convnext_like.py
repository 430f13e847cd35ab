"""A ConvNeXt-like net: depthwise convolutions, channels-last LayerNorm, layer scale and stochastic depth."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def drop_path(x, p: float, training: bool):
    """Drops whole residual branches per sample; p is below one."""
    if p == 0.0 or not training:
        return x
    keep = 1.0 - p
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    return x * x.new_empty(shape).bernoulli_(keep) / keep


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, dim, p, layer_scale=1e-2):
        super().__init__()
        self.dw = nn.Conv2d(dim, dim, 5, padding=2, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.pw1, self.pw2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(layer_scale * torch.ones(dim))
        self.p = p

    def forward(self, x):
        h = self.dw(x).permute(0, 2, 3, 1)
        h = self.gamma * self.pw2(F.gelu(self.pw1(self.norm(h))))
        return x + drop_path(h.permute(0, 3, 1, 2), self.p, self.training)


class ConvNeXtLike(nn.Module):
    def __init__(self, classes=4, dims=(8, 16), depths=(1, 2), drop=0.1):
        super().__init__()
        rates = torch.linspace(0, drop, sum(depths)).tolist()
        layers = [nn.Conv2d(3, dims[0], 2, stride=2), LayerNorm2d(dims[0])]
        for i, (dim, depth) in enumerate(zip(dims, depths)):
            if i > 0:
                layers += [LayerNorm2d(dims[i - 1]), nn.Conv2d(dims[i - 1], dim, 2, stride=2)]
            layers += [Block(dim, rates.pop(0)) for _ in range(depth)]
        self.features = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(dims[-1])
        self.head = nn.Linear(dims[-1], classes)

    def forward(self, x):
        return self.head(self.norm(self.features(x).mean(dim=(-2, -1))))


def colour_quadrants(n, device):
    y = torch.randint(4, (n,), device=device)
    x = 0.5 * torch.randn(n, 3, 16, 16, device=device)
    for k in range(4):
        r, c = 8 * (k // 2), 8 * (k % 2)
        x[y == k, k % 3, r : r + 8, c : c + 8] += 1.5
    return x, y


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = ConvNeXtLike().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=0.01)
    for it in range(30):
        net.train()
        x, y = colour_quadrants(16, device)
        loss = F.cross_entropy(net(x), y, label_smoothing=0.05)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if it % 10 == 0:
            print(f"{it}: {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        x, y = colour_quadrants(64, device)
        print("accuracy", round((net(x).argmax(1) == y).float().mean().item(), 3))
