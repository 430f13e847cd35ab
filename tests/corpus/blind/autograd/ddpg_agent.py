# target: Agent.update
# truth: The actor loss is computed through the critic before critic_opt.step() changes the critic's weights in place,
#   so its backward fails: "one of the variables needed for gradient computation has been modified by an inplace
#   operation: [torch.FloatTensor [64, 1]], which is output 0 of AsStrided, is at version 2; expected version 1
#   instead."
"""Deterministic policy gradient agent for continuous control."""
from __future__ import annotations

import copy
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Transition(NamedTuple):
    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    done: Tensor


def mlp(sizes: list[int], final: nn.Module | None = None) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    layers.pop()
    if final is not None:
        layers.append(final)
    return nn.Sequential(*layers)


class QNetwork(nn.Module):
    def __init__(self, obs_dim: int, act_dim: int, hidden: int):
        super().__init__()
        self.net = mlp([obs_dim + act_dim, hidden, hidden, 1])

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        return self.net(torch.cat([obs, action], dim=-1)).squeeze(-1)


class Agent:
    def __init__(self, obs_dim: int, act_dim: int, hidden: int = 64, gamma: float = 0.99, tau: float = 0.005, device="cpu"):
        self.gamma, self.tau = gamma, tau
        self.actor = mlp([obs_dim, hidden, hidden, act_dim], nn.Tanh()).to(device)
        self.critic = QNetwork(obs_dim, act_dim, hidden).to(device)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    @torch.no_grad()
    def bellman_target(self, batch: Transition) -> Tensor:
        future = self.critic_target(batch.next_obs, self.actor_target(batch.next_obs))
        return batch.reward + self.gamma * (1.0 - batch.done) * future

    @torch.no_grad()
    def track(self, target: nn.Module, source: nn.Module) -> None:
        for t, s in zip(target.parameters(), source.parameters()):
            t.lerp_(s, self.tau)

    def update(self, batch: Transition) -> dict[str, Tensor]:
        critic_loss = F.mse_loss(self.critic(batch.obs, batch.action), self.bellman_target(batch))
        actor_loss = -self.critic(batch.obs, self.actor(batch.obs)).mean()  # error: DG101

        self.critic_opt.zero_grad(set_to_none=True)
        critic_loss.backward()
        self.critic_opt.step()

        self.actor_opt.zero_grad(set_to_none=True)
        actor_loss.backward()
        self.actor_opt.step()

        self.track(self.actor_target, self.actor)
        self.track(self.critic_target, self.critic)
        return {"critic": critic_loss.detach(), "actor": actor_loss.detach()}
