# target: script
# truth: The per-epoch exponential schedule (gamma 0.8) is stepped after every batch, so the learning rate is practically zero within the first epoch and the model stops learning; no error, the loss just stays near its start value.
"""Bayesian personalised ranking with matrix factorisation."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

USERS, ITEMS, GROUPS = 300, 200, 5


def synthetic_clicks(per_user: int, seed: int) -> torch.Tensor:
    """(user, item) pairs; users mostly click items of their own group."""
    g = torch.Generator().manual_seed(seed)
    user = torch.arange(USERS).repeat_interleave(per_user)
    own = torch.randint(0, ITEMS // GROUPS, user.shape, generator=g) * GROUPS + user % GROUPS
    other = torch.randint(0, ITEMS, user.shape, generator=g)
    item = torch.where(torch.rand(user.shape, generator=g) < 0.9, own, other)
    return torch.stack([user, item], dim=1)


class MF(nn.Module):
    def __init__(self, users: int, items: int, dim: int = 16):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.item_bias = nn.Embedding(items, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(dim=-1) + self.item_bias(i).squeeze(-1)


def build_optimizer(model: nn.Module, lr: float = 0.02):
    """Adam, decayed by a fifth after each pass over the data."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)


def train(model: MF, loader: DataLoader, epochs: int):
    optimizer, scheduler = build_optimizer(model)
    for epoch in range(epochs):
        total = 0.0
        for user, pos in loader:
            neg = torch.randint(0, ITEMS, pos.shape)
            loss = -F.logsigmoid(model(user, pos) - model(user, neg)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()  # error: DG709
            total += loss.item()
        print(f"epoch {epoch}: bpr loss {total / len(loader):.4f}")


@torch.no_grad()
def auc(model: MF, pairs: torch.Tensor) -> float:
    user, pos = pairs.unbind(1)
    neg = torch.randint(0, ITEMS, pos.shape)
    return (model(user, pos) > model(user, neg)).float().mean().item()


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*synthetic_clicks(20, seed=1).unbind(1)), batch_size=64, shuffle=True)
    model = MF(USERS, ITEMS)
    train(model, loader, epochs=6)
    print(f"test AUC {auc(model, synthetic_clicks(5, seed=2)):.3f}")


if __name__ == "__main__":
    main()
