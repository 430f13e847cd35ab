"""A frozen backbone in eval mode, a trained head; features under no_grad."""
import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(8, 3)
        self.backbone.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            f = self.backbone(x)
        return self.head(f)


def main():
    net = Probe().to(device).train()
    opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
    for _ in range(3):
        loss = F.cross_entropy(net(torch.randn(4, 3, 8, 8, device=device)), torch.randint(3, (4,), device=device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    correct = 0
    with torch.no_grad():
        for _ in range(3):
            out = net(torch.randn(4, 3, 8, 8, device=device))
            correct += (out.argmax(1) == 0).sum().item()
    print(correct / 12)


def precomputed_features():
    net = Probe().to(device).eval()
    xs = torch.randn(32, 3, 8, 8)
    feats = []
    with torch.no_grad():
        for chunk in xs.split(8):
            feats.append(net.backbone(chunk.to(device)).cpu())
    feats = torch.cat(feats)
    y = torch.randint(3, (32,))
    head = nn.Linear(8, 3)
    opt = torch.optim.LBFGS(head.parameters(), max_iter=5)

    def closure():
        opt.zero_grad()
        loss = F.cross_entropy(head(feats), y)
        loss.backward()
        return loss

    for _ in range(3):
        opt.step(closure)


if __name__ == "__main__":
    main()
    precomputed_features()
