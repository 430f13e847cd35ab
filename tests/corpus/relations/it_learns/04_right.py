from typing import Dict

import torch
import torch.nn as nn
import torch.nn.functional as F


class RatingModel(nn.Module):
    """Predicts star ratings from users and items.

    Args:
        users: number of users.
        items: number of items.
        dim: size of the latent factors.
        low: lowest rating of the scale.
        high: highest rating of the scale.
    """

    def __init__(self, users: int, items: int, dim: int = 16, low: int = 1, high: int = 5):
        super().__init__()
        self.low, self.high = low, high
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        h = torch.cat([self.user(user), self.item(item)], dim=-1)
        unit = torch.sigmoid(self.mlp(h).squeeze(-1))
        rating = self.low + (self.high - self.low) * unit
        return rating


def fit(model: RatingModel, batch: Dict[str, torch.Tensor], steps: int = 100,
        lr: float = 1e-2) -> Dict[str, float]:
    """Fits the model to one batch of ``user``, ``item`` and ``rating``.

    Returns:
        The loss before the first and at the last step.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    first = last = float("nan")
    for step in range(steps):
        pred = model(batch["user"], batch["item"])
        loss = F.mse_loss(pred, batch["rating"].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = loss.item()
        if step == 0:
            first = last
    return {"first": first, "last": last}
