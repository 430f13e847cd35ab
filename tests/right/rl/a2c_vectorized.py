"""Advantage actor-critic on a batch of tiny tensor environments that run in lock step."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    n_envs: int = 16
    horizon: int = 8
    updates: int = 60
    gamma: float = 0.95
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    max_grad_norm: float = 0.5


class BatchedTarget:
    """Move a point on a line to a target; the episode restarts when it is reached."""

    def __init__(self, n, device, seed=0):
        self.n, self.device = n, device
        self.g = torch.Generator(device=device).manual_seed(seed)
        self.pos = self._draw(n)
        self.goal = self._draw(n)

    def _draw(self, n):
        return torch.rand(n, generator=self.g, device=self.device) * 4 - 2

    def observe(self):
        return torch.stack([self.pos, self.goal], dim=1)

    def step(self, action):
        self.pos = self.pos + (action - 1).float() * 0.4
        distance = (self.pos - self.goal).abs()
        done = distance < 0.25
        reward = done.float() - 0.1 * distance
        self.pos = torch.where(done, self._draw(self.n), self.pos)
        self.goal = torch.where(done, self._draw(self.n), self.goal)
        return self.observe(), reward, done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 32), nn.Tanh())
        self.pi = nn.Linear(32, 3)
        self.v = nn.Linear(32, 1)

    def forward(self, obs):
        h = self.body(obs)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def n_step_returns(rewards, dones, last_value, gamma):
    out = torch.empty_like(rewards)
    running = last_value
    for t in range(rewards.size(0) - 1, -1, -1):
        running = rewards[t] + gamma * running * (~dones[t])
        out[t] = running
    return out


def main(cfg=Config()):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env, model = BatchedTarget(cfg.n_envs, device), ActorCritic().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=7e-3)
    obs = env.observe()
    for update in range(cfg.updates):
        logs = {k: [] for k in ("logp", "value", "entropy", "reward", "done")}
        for _ in range(cfg.horizon):
            dist, value = model(obs)
            action = dist.sample()
            obs, reward, done = env.step(action)
            for key, item in zip(logs, (dist.log_prob(action), value, dist.entropy(), reward, done)):
                logs[key].append(item)
        batch = {k: torch.stack(v) for k, v in logs.items()}
        with torch.no_grad():
            _, last_value = model(obs)
            returns = n_step_returns(batch["reward"], batch["done"], last_value, cfg.gamma)
        advantage = returns - batch["value"].detach()
        policy_loss = -(batch["logp"] * advantage).mean()
        value_loss = F.mse_loss(batch["value"], returns)
        loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * batch["entropy"].mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), cfg.max_grad_norm)
        opt.step()
        if update % 20 == 19:
            print(f"update {update + 1}: mean reward {batch['reward'].mean().item():.3f}")


if __name__ == "__main__":
    main()
