"""Deep sets on baskets of products with padding."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SetEncoder(nn.Module):
    def __init__(self, products, dim=16):
        super().__init__()
        self.embed = nn.Embedding(products, dim)
        self.phi = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.rho = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, items, mask):
        weight = mask.unsqueeze(-1).to(self.embed.weight.dtype)
        h = self.phi(self.embed(items)) * weight
        mean = h.sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)
        return self.rho(torch.cat([mean, h.sum(dim=1)], dim=-1)).squeeze(-1)


def baskets(n, products=30, longest=7):
    items = torch.randint(0, products, (n, longest))
    size = torch.randint(1, longest + 1, (n,))
    mask = torch.arange(longest)[None, :] < size[:, None]
    price = 1 + torch.arange(products).float() / 10
    return items, mask, (price[items] * mask).sum(dim=1)


def run_epoch(model, data, optimizer=None, batch=32):
    items, mask, target = data
    total = 0.0
    for idx in torch.randperm(len(items)).split(batch):
        loss = F.smooth_l1_loss(model(items[idx], mask[idx]), target[idx])
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(idx)
    return total / len(items)


if __name__ == "__main__":
    torch.manual_seed(0)
    train, valid = baskets(200), baskets(60)
    model = SetEncoder(30)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        fit = run_epoch(model, train, optimizer)
        print(f"epoch {epoch} train {fit:.3f} valid {run_epoch(model, valid):.3f}")
