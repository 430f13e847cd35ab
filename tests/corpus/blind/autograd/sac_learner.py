# target: SAC.update
# truth: TwinCritic.pessimistic is decorated with @torch.no_grad(), right for the target value but it is also used in
#   actor_loss, so the Q term carries no gradient to the actor; only the entropy term trains the policy, which never
#   improves its return and raises no error.
"""Soft actor-critic learner for continuous control (fixed temperature)."""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


def mlp(sizes):
    layers = []
    for i, o in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=256):
        super().__init__()
        self.net = mlp([obs_dim, hidden, hidden, 2 * act_dim])

    def sample(self, obs):
        """Reparameterised action in (-1, 1) and its log-density."""
        mu, log_std = self.net(obs).chunk(2, dim=-1)
        std = log_std.clamp(-5.0, 2.0).exp()
        dist = torch.distributions.Normal(mu, std)
        u = dist.rsample()
        correction = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))
        return u.tanh(), (dist.log_prob(u) - correction).sum(dim=-1)


class TwinCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=256):
        super().__init__()
        self.q1 = mlp([obs_dim + act_dim, hidden, hidden, 1])
        self.q2 = mlp([obs_dim + act_dim, hidden, hidden, 1])

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)

    @torch.no_grad()  # error: DG117
    def pessimistic(self, obs, act):
        return torch.minimum(*self(obs, act))


class SAC:
    def __init__(self, obs_dim, act_dim, device, alpha=0.2, gamma=0.99, tau=0.005, lr=3e-4):
        self.actor = Actor(obs_dim, act_dim).to(device)
        self.critic = TwinCritic(obs_dim, act_dim).to(device)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.alpha, self.gamma, self.tau = alpha, gamma, tau
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=lr)

    def critic_loss(self, batch):
        with torch.no_grad():
            act, logp = self.actor.sample(batch["next_obs"])
            value = self.critic_target.pessimistic(batch["next_obs"], act) - self.alpha * logp
            y = batch["reward"] + self.gamma * (1.0 - batch["done"]) * value
        q1, q2 = self.critic(batch["obs"], batch["act"])
        return F.mse_loss(q1, y) + F.mse_loss(q2, y)

    def actor_loss(self, obs):
        act, logp = self.actor.sample(obs)
        return (self.alpha * logp - self.critic.pessimistic(obs, act)).mean()

    def update(self, batch):
        c_loss = self.critic_loss(batch)
        self.critic_opt.zero_grad()
        c_loss.backward()
        self.critic_opt.step()
        a_loss = self.actor_loss(batch["obs"])
        self.actor_opt.zero_grad()
        a_loss.backward()
        self.actor_opt.step()
        with torch.no_grad():
            for t, p in zip(self.critic_target.parameters(), self.critic.parameters()):
                t.lerp_(p, self.tau)
        return c_loss.detach(), a_loss.detach()
