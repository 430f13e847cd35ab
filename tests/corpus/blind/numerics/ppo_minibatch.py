# target: ppo_update
# truth: With 257 collected steps the last minibatch of 64 has one sample, whose unbiased std is NaN; the normalised advantage and all weights become NaN, and in the next epoch Normal raises "Expected parameter loc ... to satisfy the constraint Real(), but found invalid values".
"""Clipped PPO update for continuous control."""
import torch
import torch.nn as nn
from torch.distributions import Normal


class GaussianActorCritic(nn.Module):
    def __init__(self, obs_dim: int = 8, act_dim: int = 2, hidden: int = 64):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, act_dim))
        self.critic = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def dist(self, obs):
        return Normal(self.actor(obs), self.log_std.exp())

    def value(self, obs):
        return self.critic(obs).squeeze(-1)


def normalize(adv: torch.Tensor) -> torch.Tensor:
    return (adv - adv.mean()) / (adv.std() + 1e-8)  # error: DG410


@torch.no_grad()
def collect(policy: GaussianActorCritic, steps: int, obs_dim: int = 8, gamma: float = 0.99) -> dict:
    """Roll out the policy in a random environment (one reward per step)."""
    obs = torch.randn(steps, obs_dim)
    dist = policy.dist(obs)
    actions = dist.sample()
    rewards = -actions.pow(2).sum(-1) + obs[:, 0]
    returns = torch.zeros(steps)
    running = 0.0
    for t in reversed(range(steps)):
        running = rewards[t] + gamma * running
        returns[t] = running
    advantages = returns - policy.value(obs)
    log_probs = dist.log_prob(actions).sum(-1)
    return {"obs": obs, "actions": actions, "returns": returns, "adv": advantages, "log_probs": log_probs}


def ppo_update(steps: int = 257, epochs: int = 2, minibatch: int = 64, clip: float = 0.2) -> float:
    policy = GaussianActorCritic()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4, eps=1e-5)
    data = collect(policy, steps)
    loss = torch.zeros(())
    for _ in range(epochs):
        for idx in torch.randperm(steps).split(minibatch):
            adv = normalize(data["adv"][idx])
            log_probs = policy.dist(data["obs"][idx]).log_prob(data["actions"][idx]).sum(-1)
            ratio = (log_probs - data["log_probs"][idx]).exp()
            clipped = ratio.clamp(1 - clip, 1 + clip)
            policy_loss = -torch.min(ratio * adv, clipped * adv).mean()
            value_loss = (policy.value(data["obs"][idx]) - data["returns"][idx]).pow(2).mean()
            loss = policy_loss + 0.5 * value_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
    return loss.item()
