"""Train a small multi-layer perceptron on two interleaved spirals."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(7)


def make_spirals(n_per_class=200, noise=0.08):
    t = torch.linspace(0.3, 1.5 * math.pi, n_per_class)
    points, labels = [], []
    for k in range(2):
        phase = k * math.pi
        xy = torch.stack([t * torch.cos(t + phase), t * torch.sin(t + phase)], dim=1) / (1.5 * math.pi)
        points.append(xy + noise * torch.randn_like(xy))
        labels.append(torch.full((n_per_class,), k, dtype=torch.long))
    return torch.cat(points), torch.cat(labels)


class SpiralNet(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.head = nn.Linear(hidden, 2)

    def forward(self, x):
        return self.head(self.body(x))


def train_epoch(net, loader, opt):
    net.train()
    total = torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        total += loss.detach() * y.size(0)
    return total.item() / len(loader.dataset)


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    hits = torch.zeros((), dtype=torch.long, device=device)
    for x, y in loader:
        hits += (net(x.to(device)).argmax(dim=1) == y.to(device)).sum()
    return hits.item() / len(loader.dataset)


def main():
    data = TensorDataset(*make_spirals())
    train_set, test_set = random_split(data, [320, 80], generator=torch.Generator().manual_seed(1))
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=80)
    net = SpiralNet().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(40):
        loss = train_epoch(net, train_loader, opt)
        if epoch % 20 == 19:
            print(f"epoch {epoch + 1}: loss {loss:.3f}, test accuracy {accuracy(net, test_loader):.3f}")


if __name__ == "__main__":
    main()
