"""Ratings made from hidden factors."""
import torch
from torch.utils.data import DataLoader, TensorDataset


def ratings(cfg, seed=0):
    g = torch.Generator().manual_seed(seed)
    users = torch.randn(cfg.n_users, 3, generator=g)
    items = torch.randn(cfg.n_items, 3, generator=g)
    table = users @ items.T + 3.0
    u, i = (torch.rand(table.shape, generator=g) < 0.6).nonzero(as_tuple=True)
    return TensorDataset(u, i, table[u, i] + 0.1 * torch.randn(u.numel(), generator=g))


def loaders(cfg):
    data = ratings(cfg)
    cut = int(0.8 * len(data))
    train, test = torch.utils.data.random_split(data, [cut, len(data) - cut], generator=torch.Generator().manual_seed(1))
    return DataLoader(train, cfg.batch_size, shuffle=True), DataLoader(test, cfg.batch_size)
