# target: script
# source: https://github.com/rail-berkeley/rlkit/pull/109
# truth: critic and policy losses are both built first, then the critic optimizer steps in place
#   before policy_loss.backward(); as soon as the buffer is warm (step 65) the first update dies with
#   "one of the variables needed for gradient computation has been modified by an inplace operation".
"""Toy soft actor critic on a 1-d point mass."""
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(3)
torch.manual_seed(3)


def mlp(inp, out, hidden=32):
    return nn.Sequential(nn.Linear(inp, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, out))


class PointMass:
    def reset(self):
        self.x = torch.randn(2)
        self.t = 0
        return self.x.clone()

    def step(self, a):
        pos, vel = self.x[0], self.x[1]
        vel = 0.9 * vel + 0.1 * a
        pos = pos + 0.1 * vel
        self.x = torch.stack([pos, vel])
        self.t += 1
        return self.x.clone(), float(-pos ** 2), self.t >= 25


class Policy(nn.Module):
    def __init__(self, obs_dim=2):
        super().__init__()
        self.net = mlp(obs_dim, 2)

    def forward(self, obs):
        mu, log_std = self.net(obs).chunk(2, dim=-1)
        dist = torch.distributions.Normal(mu, log_std.clamp(-5, 2).exp())
        u = dist.rsample()
        a = torch.tanh(u)
        logp = dist.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)
        return a, logp


class SAC:
    def __init__(self, alpha=0.1, gamma=0.98, tau=0.01):
        self.policy, self.qf, self.target_qf = Policy(), mlp(3, 1), mlp(3, 1)
        self.target_qf.load_state_dict(self.qf.state_dict())
        self.alpha, self.gamma, self.tau = alpha, gamma, tau
        self.pi_opt = torch.optim.Adam(self.policy.parameters(), lr=1e-3)
        self.q_opt = torch.optim.Adam(self.qf.parameters(), lr=1e-3)

    def train_on(self, batch):
        obs, act, rew, nobs, done = batch
        # losses
        new_act, logp = self.policy(obs)
        policy_loss = (self.alpha * logp - self.qf(torch.cat([obs, new_act], -1))).mean()
        with torch.no_grad():
            na, nlogp = self.policy(nobs)
            target = rew + self.gamma * (1 - done) * (self.target_qf(torch.cat([nobs, na], -1)) - self.alpha * nlogp)
        q_loss = F.mse_loss(self.qf(torch.cat([obs, act], -1)), target)
        # updates
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()  # error: DG101
        self.pi_opt.zero_grad()
        policy_loss.backward()
        self.pi_opt.step()
        for p, tp in zip(self.qf.parameters(), self.target_qf.parameters()):
            tp.data.lerp_(p.data, self.tau)
        return q_loss.item(), policy_loss.item()


def collate(samples):
    o, a, r, n, d = zip(*samples)
    col = lambda v: torch.tensor(v).float().unsqueeze(-1)
    return torch.stack(o), torch.stack(a), col(r), torch.stack(n), col(d)


if __name__ == "__main__":
    env, agent, memory = PointMass(), SAC(), deque(maxlen=2000)
    obs = env.reset()
    for step in range(400):
        if step < 64:
            a = torch.rand(1) * 2 - 1
        else:
            with torch.no_grad():
                a = agent.policy(obs)[0]
        nobs, r, done = env.step(a[0])
        memory.append((obs, a, r, nobs, float(done)))
        obs = env.reset() if done else nobs
        if step >= 64:
            ql, pl = agent.train_on(collate(random.sample(list(memory), 32)))
            if step % 80 == 0:
                print(f"{step:4d}  q {ql:.4f}  pi {pl:.4f}")
