"""Prioritized experience replay with importance weights and updated TD-error priorities."""
import copy

import torch
from torch import nn


class PrioritizedReplay:
    def __init__(self, capacity, obs_dim, device, alpha=0.6, eps=1e-3):
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.nxt = torch.zeros(capacity, obs_dim, device=device)
        self.priority = torch.zeros(capacity, device=device)
        self.capacity, self.alpha, self.eps = capacity, alpha, eps
        self.cursor, self.size = 0, 0

    def extend(self, obs, reward, nxt):
        n = obs.size(0)
        where = (self.cursor + torch.arange(n, device=obs.device)) % self.capacity
        self.obs[where], self.reward[where], self.nxt[where] = obs, reward, nxt
        # New rows get the largest priority so that each is seen soon.
        self.priority[where] = self.priority.max().clamp(min=1.0)
        self.cursor = (self.cursor + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, n, beta):
        p = self.priority[: self.size].pow(self.alpha)
        p = p / p.sum()
        idx = torch.multinomial(p, n, replacement=True)
        weights = (self.size * p[idx]).pow(-beta)
        return idx, self.obs[idx], self.reward[idx], self.nxt[idx], weights / weights.max()

    def update(self, idx, td_error):
        self.priority[idx] = td_error.abs() + self.eps


def transition(obs):
    nxt = (obs * 0.8).roll(1, dims=1) + 0.05 * torch.randn_like(obs)
    return obs.sum(dim=1).tanh(), nxt


def main():
    torch.manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    value = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    frozen = copy.deepcopy(value).requires_grad_(False)
    memory = PrioritizedReplay(512, 3, device)
    opt = torch.optim.Adam(value.parameters(), lr=3e-3)
    steps = 200
    for step in range(steps):
        obs = torch.randn(8, 3, device=device)
        reward, nxt = transition(obs)
        memory.extend(obs, reward, nxt)
        beta = 0.4 + 0.6 * step / steps
        idx, o, r, o2, w = memory.sample(32, beta)
        with torch.no_grad():
            target = r + 0.9 * frozen(o2).squeeze(1)
        td = value(o).squeeze(1) - target
        loss = (w * td.square()).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        memory.update(idx, td.detach())
        with torch.no_grad():
            for f, p in zip(frozen.parameters(), value.parameters()):
                f.mul_(0.98).add_(p, alpha=0.02)
        if step % 50 == 0:
            print(f"step {step}: weighted td loss {loss.item():.4f}, memory {memory.size}")


if __name__ == "__main__":
    main()
