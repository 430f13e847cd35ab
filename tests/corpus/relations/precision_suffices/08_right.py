import torch
import torch.nn as nn


def bernoulli_nll(logit, target):
    return nn.functional.softplus(logit) - target * logit


class EdgeDecoder(nn.Module):
    """Inner product decoder of a graph autoencoder."""

    def __init__(self, features, dim=16):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x, adj):
        z = self.embed((adj + torch.eye(len(adj), dtype=adj.dtype, device=adj.device)) @ x)
        return z @ z.t()


def community_graph(n=40, seed=0):
    g = torch.Generator().manual_seed(seed)
    group = torch.arange(n) % 2
    same = (group[:, None] == group[None, :]).float()
    upper = (torch.rand(n, n, generator=g) < 0.05 + 0.35 * same).float().triu(1)
    x = torch.randn(n, 6, generator=g) * 0.2
    return x + group[:, None], upper + upper.t()


def reconstruction_loss(model, x, adj):
    logit = model(x, adj)
    positive = adj.sum() / adj.numel()
    weight = torch.where(adj > 0, 0.5 / positive, 0.5 / (1 - positive))
    return (weight * bernoulli_nll(logit, adj)).mean()


def main():
    torch.manual_seed(0)
    x, adj = community_graph()
    model = EdgeDecoder(x.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(10):
        loss = reconstruction_loss(model, x, adj)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
