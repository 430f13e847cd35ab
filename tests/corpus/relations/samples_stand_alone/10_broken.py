"""Value networks for the grid world agents."""
import torch
import torch.nn as nn


class DuelingQNetwork(nn.Module):
    """Dueling architecture: Q(s, a) = V(s) + A(s, a) - mean_a A(s, a).

    obs: (batch, obs_dim) -> (batch, n_actions)
    """

    def __init__(self, obs_dim: int, n_actions: int, hidden: int = 64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, n_actions)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        h = self.trunk(obs)
        v = self.value(h)
        a = self.advantage(h)
        return v + a - a.mean()

    @torch.no_grad()
    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """Greedy actions, (batch,)."""
        return self.forward(obs).argmax(dim=1)


class TwinQNetwork(nn.Module):
    """Minimum of two dueling heads, used for the targets."""

    def __init__(self, obs_dim: int, n_actions: int):
        super().__init__()
        self.first = DuelingQNetwork(obs_dim, n_actions)
        self.second = DuelingQNetwork(obs_dim, n_actions)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.minimum(self.first(obs), self.second(obs))
