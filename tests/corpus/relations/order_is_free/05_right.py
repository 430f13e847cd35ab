import torch
import torch.nn as nn
import torch.nn.functional as F


class Projector(nn.Module):
    def __init__(self, in_dim=20, dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(in_dim, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def contrastive_loss(z1, z2, temperature=0.2):
    """Pulls the two views of a sample together and pushes the other samples of the batch away."""
    pos = (z1 * z2).sum(1) / temperature
    sim = z1 @ z2.t() / temperature
    neg = sim.masked_fill(torch.eye(len(z1), dtype=torch.bool), float("-inf"))
    logits = torch.cat([pos[:, None], neg], dim=1)
    target = torch.zeros(len(z1), dtype=torch.long)
    return F.cross_entropy(logits, target)


def augment(x):
    keep = (torch.rand_like(x) > 0.2).float()
    return x * keep + 0.05 * torch.randn_like(x)


def main():
    torch.manual_seed(0)
    data = torch.randn(128, 20)
    model = Projector()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(3):
        for idx in torch.randperm(len(data)).split(32):
            xb = data[idx]
            loss = contrastive_loss(model(augment(xb)), model(augment(xb)))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
