# target: A2CAgent.update
# truth: The advantage in the policy loss still carries the critic's graph, so the policy gradient also flows into the value network and pushes its predictions by log-probabilities instead of towards the returns; no error is raised.
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class Rollout:
    obs: torch.Tensor       # (T, obs_dim)
    actions: torch.Tensor   # (T,)
    rewards: torch.Tensor   # (T,)
    dones: torch.Tensor     # (T,)
    last_value: float = 0.0


def mlp(inp, hidden, out):
    return nn.Sequential(nn.Linear(inp, hidden), nn.Tanh(), nn.Linear(hidden, out))


def discounted_returns(rollout: Rollout, gamma: float) -> torch.Tensor:
    returns = torch.empty_like(rollout.rewards)
    running = rollout.last_value
    for t in range(len(rollout.rewards) - 1, -1, -1):
        running = rollout.rewards[t] + gamma * running * (1.0 - rollout.dones[t])
        returns[t] = running
    return returns


class A2CAgent:
    def __init__(self, obs_dim=4, n_actions=2, hidden=64, gamma=0.99, entropy_coef=0.01, lr=7e-4):
        self.actor = mlp(obs_dim, hidden, n_actions)
        self.critic = mlp(obs_dim, hidden, 1)
        self.gamma = gamma
        self.entropy_coef = entropy_coef
        params = list(self.actor.parameters()) + list(self.critic.parameters())
        self.optimizer = torch.optim.RMSprop(params, lr=lr, eps=1e-5)

    @torch.no_grad()
    def act(self, obs: torch.Tensor) -> int:
        return Categorical(logits=self.actor(obs)).sample().item()

    def update(self, rollout: Rollout) -> dict:
        returns = discounted_returns(rollout, self.gamma)
        values = self.critic(rollout.obs).squeeze(-1)
        dist = Categorical(logits=self.actor(rollout.obs))

        advantage = returns - values
        policy_loss = -(dist.log_prob(rollout.actions) * advantage).mean()  # error: DG120
        value_loss = advantage.pow(2).mean()
        entropy = dist.entropy().mean()
        loss = policy_loss + 0.5 * value_loss - self.entropy_coef * entropy

        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.critic.parameters(), 0.5)
        nn.utils.clip_grad_norm_(self.actor.parameters(), 0.5)
        self.optimizer.step()
        return {"policy": policy_loss.item(), "value": value_loss.item(), "entropy": entropy.item()}
