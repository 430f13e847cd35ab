"""Matrix factorization with biases."""
import torch
from torch import nn


class Factorization(nn.Module):
    def __init__(self, cfg, mean=0.0):
        super().__init__()
        self.user, self.item = nn.Embedding(cfg.n_users, cfg.dim), nn.Embedding(cfg.n_items, cfg.dim)
        self.user_bias, self.item_bias = nn.Embedding(cfg.n_users, 1), nn.Embedding(cfg.n_items, 1)
        self.register_buffer("mean", torch.tensor(float(mean)))
        for e in (self.user, self.item):
            nn.init.normal_(e.weight, std=0.1)
        for e in (self.user_bias, self.item_bias):
            nn.init.zeros_(e.weight)

    def forward(self, u, i):
        dot = (self.user(u) * self.item(i)).sum(dim=1)
        return self.mean + dot + self.user_bias(u).squeeze(1) + self.item_bias(i).squeeze(1)
