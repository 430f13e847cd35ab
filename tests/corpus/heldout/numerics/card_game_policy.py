# target: update
# truth: Illegal actions have probability exactly 0 and the hand-written entropy computes 0 * log(0) = nan, so the loss and, after
#   one update, all weights are nan (the next sampling of actions raises).
"""Policy-gradient agent for a card game with illegal-action masks."""
from typing import NamedTuple

import torch
import torch.nn as nn


class Rollout(NamedTuple):
    obs: torch.Tensor       # (T, obs_dim)
    legal: torch.Tensor     # (T, n_actions) bool
    actions: torch.Tensor   # (T,)
    returns: torch.Tensor   # (T,)


class PolicyNet(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, hidden: int = 64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.Tanh(),
            nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, n_actions),
        )

    def forward(self, obs: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        logits = self.net(obs).masked_fill(~legal, float("-inf"))
        return torch.softmax(logits, dim=-1)


def entropy(probs: torch.Tensor) -> torch.Tensor:
    return -(probs * probs.log()).sum(dim=-1)  # error: DG403|DG404


def collect(policy: PolicyNet, steps: int, obs_dim: int, n_actions: int) -> Rollout:
    """Plays random hands; the reward favours low card numbers."""
    obs = torch.randn(steps, obs_dim)
    legal = torch.rand(steps, n_actions) < 0.6
    legal[:, 0] = True  # passing is always allowed
    with torch.no_grad():
        actions = torch.multinomial(policy(obs, legal), 1).squeeze(1)
    rewards = 1.0 - actions.float() / n_actions
    return Rollout(obs, legal, actions, rewards)


def update(policy: PolicyNet, optimizer: torch.optim.Optimizer, rollout: Rollout, beta: float = 0.01) -> dict:
    probs = policy(rollout.obs, rollout.legal)
    chosen = probs.gather(1, rollout.actions.unsqueeze(1)).squeeze(1)
    advantage = rollout.returns - rollout.returns.mean()
    pg_loss = -(advantage * chosen.log()).mean()
    ent = entropy(probs).mean()
    loss = pg_loss - beta * ent
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    return {"pg": pg_loss.item(), "entropy": ent.item()}


def main():
    torch.manual_seed(0)
    policy = PolicyNet(10, 8)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for i in range(20):
        stats = update(policy, optimizer, collect(policy, 128, 10, 8))
        if i % 5 == 0:
            print(i, stats)


if __name__ == "__main__":
    main()
