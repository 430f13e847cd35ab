"""Soft actor-critic with twin critics, polyak-averaged targets and a learned temperature."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

LOG_STD_MIN, LOG_STD_MAX = -5.0, 1.0


def mlp(n_in, n_out, hidden=32):
    return nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, n_out))


class SquashedActor(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.net = mlp(obs_dim, 2 * act_dim)

    def forward(self, obs):
        mu, log_std = self.net(obs).chunk(2, dim=-1)
        std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp()
        base = torch.distributions.Normal(mu, std)
        u = base.rsample()
        # log det of tanh in its stable form
        correction = 2 * (math.log(2) - u - F.softplus(-2 * u))
        return torch.tanh(u), (base.log_prob(u) - correction).sum(dim=-1)


class TwinQ(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.q1, self.q2 = mlp(obs_dim + act_dim, 1), mlp(obs_dim + act_dim, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


@torch.no_grad()
def polyak(target, source, tau):
    for t, s in zip(target.parameters(), source.parameters()):
        t.lerp_(s, tau)


class SAC:
    def __init__(self, obs_dim, act_dim, device, gamma=0.95, tau=0.02):
        self.actor = SquashedActor(obs_dim, act_dim).to(device)
        self.critic = TwinQ(obs_dim, act_dim).to(device)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.tensor(-1.0, device=device, requires_grad=True)
        self.target_entropy = -float(act_dim)
        self.gamma, self.tau = gamma, tau
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=3e-3)
        self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=3e-3)
        self.opt_alpha = torch.optim.Adam([self.log_alpha], lr=3e-3)

    def update(self, obs, act, reward, nxt):
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            a2, logp2 = self.actor(nxt)
            target = reward + self.gamma * (torch.min(*self.critic_target(nxt, a2)) - alpha * logp2)
        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.opt_critic.zero_grad()
        critic_loss.backward()
        self.opt_critic.step()

        self.critic.requires_grad_(False)
        pi, logp = self.actor(obs)
        actor_loss = (alpha * logp - torch.min(*self.critic(obs, pi))).mean()
        self.opt_actor.zero_grad()
        actor_loss.backward()
        self.opt_actor.step()
        self.critic.requires_grad_(True)

        alpha_loss = -(self.log_alpha * (logp.detach() + self.target_entropy)).mean()
        self.opt_alpha.zero_grad()
        alpha_loss.backward()
        self.opt_alpha.step()
        polyak(self.critic_target, self.critic, self.tau)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    agent = SAC(2, 1, device)
    for i in range(150):
        obs = torch.rand(64, 2, device=device) * 2 - 1
        with torch.no_grad():
            act, _ = agent.actor(obs)
            nxt = torch.cat([obs[:, :1] + 0.3 * act, 0.5 * obs[:, 1:]], dim=1).clamp(-1, 1)
            reward = -nxt[:, 0].abs()
        agent.update(obs, act, reward, nxt)
        if i % 50 == 0:
            print(f"{i}: reward {reward.mean().item():.3f} alpha {agent.log_alpha.exp().item():.3f}")


if __name__ == "__main__":
    main()
