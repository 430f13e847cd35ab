"""Soft actor-critic: twin critics, a target that follows slowly, a learned temperature."""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Actor(nn.Module):
    def __init__(self, obs=3, act=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 32), nn.ReLU(), nn.Linear(32, 2 * act))

    def forward(self, s):
        mean, log_std = self.net(s).chunk(2, dim=-1)
        pi = Normal(mean, log_std.clamp(-5, 2).exp())
        u = pi.rsample()
        # log(1 - tanh(u)^2) in a form that does not underflow
        log_prob = (pi.log_prob(u) - 2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), log_prob


class Critic(nn.Module):
    def __init__(self, obs=3, act=2):
        super().__init__()
        self.qs = nn.ModuleList(nn.Sequential(nn.Linear(obs + act, 32), nn.ReLU(), nn.Linear(32, 1)) for _ in range(2))

    def forward(self, s, a):
        x = torch.cat([s, a], dim=-1)
        return torch.stack([q(x).squeeze(-1) for q in self.qs])


class Agent:
    def __init__(self, gamma=0.99, tau=0.01):
        self.actor, self.critic = Actor().to(device), Critic().to(device)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.zeros((), device=device, requires_grad=True)
        self.pi_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.q_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=1e-3)
        self.gamma, self.tau, self.wanted_entropy = gamma, tau, -2.0

    def update(self, s, a, r, s2, done):
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            a2, logp2 = self.actor(s2)
            value = self.target(s2, a2).amin(dim=0) - alpha * logp2
            backup = r + self.gamma * (1 - done) * value
        q_loss = (self.critic(s, a) - backup).square().mean(dim=1).sum()
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()

        self.critic.requires_grad_(False)
        proposed, logp = self.actor(s)
        pi_loss = (alpha * logp - self.critic(s, proposed).amin(dim=0)).mean()
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()
        self.critic.requires_grad_(True)

        alpha_loss = -(self.log_alpha * (logp.detach() + self.wanted_entropy)).mean()
        self.alpha_opt.zero_grad()
        alpha_loss.backward()
        self.alpha_opt.step()

        with torch.no_grad():
            for old, new in zip(self.target.parameters(), self.critic.parameters()):
                old.mul_(1 - self.tau).add_(new, alpha=self.tau)
        return {"q": q_loss.item(), "pi": pi_loss.item(), "alpha": alpha.item()}


if __name__ == "__main__":
    torch.manual_seed(0)
    agent = Agent()
    for _ in range(4):
        s, a = torch.randn(16, 3, device=device), torch.rand(16, 2, device=device) * 2 - 1
        s2, r, done = s + 0.1, a.sum(-1), torch.zeros(16, device=device)
        print(agent.update(s, a, r, s2, done))
