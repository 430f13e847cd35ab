import torch
import torch.nn as nn
import torch.nn.functional as F


class Embedder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 5, stride=2)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2)
        self.fc = nn.Linear(24, dim)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return F.normalize(self.fc(x.mean(dim=(2, 3))), dim=1)


class TripletModel(nn.Module):
    """Returns the distances anchor-positive and anchor-negative, each (B,)."""

    def __init__(self):
        super().__init__()
        self.embed = Embedder()

    def forward(self, anchor, positive, negative):
        za = self.embed(anchor)
        zp = self.embed(positive)
        zn = self.embed(negative)
        d_ap = (za - zp).pow(2).sum(1)
        d_an = (za - zn).pow(2).sum(1)
        return d_ap, d_an


def triplet_loss(d_ap, d_an, margin=0.3):
    return F.relu(d_ap - d_an + margin).mean()


def make_triplets(n):
    base = torch.randn(n, 3, 1, 1)
    anchor = base + 0.3 * torch.randn(n, 3, 20, 20)
    positive = base + 0.3 * torch.randn(n, 3, 20, 20)
    negative = torch.randn(n, 3, 1, 1) + 0.3 * torch.randn(n, 3, 20, 20)
    return anchor, positive, negative


def main(steps=6):
    torch.manual_seed(0)
    model = TripletModel()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        d_ap, d_an = model(*make_triplets(16))
        loss = triplet_loss(d_ap, d_an)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{step} {loss.item():.4f}")


if __name__ == "__main__":
    main()
