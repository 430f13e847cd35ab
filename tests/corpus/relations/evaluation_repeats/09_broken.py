import torch
import torch.nn as nn


class DropPath(nn.Module):
    """Stochastic depth per sample."""

    def __init__(self, drop_prob):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        if self.drop_prob == 0.0:
            return x
        keep = 1.0 - self.drop_prob
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        return x * x.new_empty(shape).bernoulli_(keep) / keep


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim, drop_prob=0.0):
        super().__init__()
        self.dw = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.pw1 = nn.Linear(dim, 4 * dim)
        self.pw2 = nn.Linear(4 * dim, dim)
        self.path = DropPath(drop_prob)

    def forward(self, x):
        y = self.dw(x).permute(0, 2, 3, 1)
        y = self.pw2(nn.functional.gelu(self.pw1(self.norm(y)))).permute(0, 3, 1, 2)
        return x + self.path(y)


class ConvNeXt(nn.Module):
    def __init__(self, dim=24, depth=3, classes=10, drop_path=0.2):
        super().__init__()
        rates = torch.linspace(0, drop_path, depth).tolist()
        self.stem = nn.Conv2d(3, dim, 4, stride=4)
        self.blocks = nn.Sequential(*[ConvNeXtBlock(dim, r) for r in rates])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = ConvNeXt().eval()
    with torch.inference_mode():
        logits = net(torch.randn(6, 3, 32, 32))
    print(logits.argmax(dim=1))
