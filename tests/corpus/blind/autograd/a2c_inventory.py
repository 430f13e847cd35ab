# target: A2CAgent.update
# truth: Silently wrong: the advantage in the policy loss is not detached, so the policy loss also sends gradients into the critic, which is trained to change the advantage instead of only fitting the returns.
"""Advantage actor-critic for warehouse re-ordering (one agent per SKU group)."""
from typing import Dict, List

import torch
from torch import Tensor, nn
from torch.distributions import Categorical


def mlp(sizes: List[int]) -> nn.Sequential:
    layers: List[nn.Module] = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i < len(sizes) - 2:
            layers.append(nn.Tanh())
    return nn.Sequential(*layers)


class A2CAgent:
    def __init__(
        self,
        obs_dim: int,
        n_actions: int,
        gamma: float = 0.99,
        entropy_coef: float = 0.01,
        value_coef: float = 0.5,
        lr: float = 7e-4,
        max_grad_norm: float = 0.5,
    ):
        self.actor = mlp([obs_dim, 64, 64, n_actions])
        self.critic = mlp([obs_dim, 64, 64, 1])
        self.params = list(self.actor.parameters()) + list(self.critic.parameters())
        self.optimizer = torch.optim.RMSprop(self.params, lr=lr, eps=1e-5)
        self.gamma = gamma
        self.entropy_coef = entropy_coef
        self.value_coef = value_coef
        self.max_grad_norm = max_grad_norm

    @torch.no_grad()
    def act(self, obs: Tensor) -> Tensor:
        return Categorical(logits=self.actor(obs)).sample()

    @torch.no_grad()
    def discounted_returns(self, rewards: Tensor, dones: Tensor, last_obs: Tensor) -> Tensor:
        """rewards, dones: (T, N); last_obs: (N, obs_dim), the state after the rollout."""
        ret = self.critic(last_obs).squeeze(-1)
        out = torch.empty_like(rewards)
        for t in reversed(range(rewards.size(0))):
            ret = rewards[t] + self.gamma * (1.0 - dones[t]) * ret
            out[t] = ret
        return out

    def update(self, rollout: Dict[str, Tensor]) -> Dict[str, float]:
        """One gradient step on a rollout with obs (T, N, obs_dim) and actions, rewards, dones (T, N)."""
        returns = self.discounted_returns(rollout["rewards"], rollout["dones"], rollout["last_obs"])
        values = self.critic(rollout["obs"]).squeeze(-1)
        dist = Categorical(logits=self.actor(rollout["obs"]))

        advantages = returns - values  # error: DG120
        policy_loss = -(dist.log_prob(rollout["actions"]) * advantages).mean()
        value_loss = (returns - values).pow(2).mean()
        entropy = dist.entropy().mean()
        loss = policy_loss + self.value_coef * value_loss - self.entropy_coef * entropy

        self.optimizer.zero_grad()
        loss.backward()
        grad_norm = nn.utils.clip_grad_norm_(self.params, self.max_grad_norm)
        self.optimizer.step()
        return {
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy": entropy.item(),
            "grad_norm": grad_norm.item(),
        }
