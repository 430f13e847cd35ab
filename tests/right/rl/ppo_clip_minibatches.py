"""PPO with clipped ratios, GAE, shuffled minibatches and an early stop on the KL estimate."""
import torch
from torch import nn
from torch.distributions import Normal

GAMMA, LAM, CLIP, TARGET_KL = 0.97, 0.95, 0.2, 0.05


class PointEnv:
    """A batch of damped points pulled to the origin by bounded forces; fixed episode length."""

    def __init__(self, n, device):
        self.n, self.device = n, device

    def reset(self):
        self.x = torch.randn(self.n, device=self.device)
        self.v = torch.zeros(self.n, device=self.device)
        return torch.stack([self.x, self.v], -1)

    def step(self, force):
        self.v = 0.9 * self.v + 0.2 * force.clamp(-1, 1)
        self.x = self.x + 0.2 * self.v
        reward = -(self.x.square() + 0.05 * force.square())
        return torch.stack([self.x, self.v], -1), reward


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(torch.full((1,), -0.5))
        self.value = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))

    def dist(self, obs):
        return Normal(self.mu(obs).squeeze(-1), self.log_std.exp())


def gae(rewards, values, last_value):
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(last_value)
    next_value = last_value
    for t in reversed(range(rewards.size(0))):
        delta = rewards[t] + GAMMA * next_value - values[t]
        running = delta + GAMMA * LAM * running
        advantages[t] = running
        next_value = values[t]
    return advantages, advantages + values


@torch.no_grad()
def collect(env, agent, horizon):
    obs, rows = env.reset(), []
    for _ in range(horizon):
        dist = agent.dist(obs)
        act = dist.sample()
        nxt, reward = env.step(act)
        rows.append((obs, act, dist.log_prob(act), reward, agent.value(obs).squeeze(-1)))
        obs = nxt
    o, a, lp, r, v = (torch.stack(col) for col in zip(*rows))
    adv, ret = gae(r, v, agent.value(obs).squeeze(-1))
    return [t.flatten(0, 1) for t in (o, a, lp, adv, ret)], r.mean()


def update(agent, opt, data, epochs=4, minibatch=128):
    n = data[0].size(0)
    for _ in range(epochs):
        kls = []
        for idx in torch.randperm(n, device=data[0].device).split(minibatch):
            obs, act, old_lp, adv, ret = (t[idx] for t in data)
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            dist = agent.dist(obs)
            log_ratio = dist.log_prob(act) - old_lp
            ratio = log_ratio.exp()
            surrogate = torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv)
            value_loss = nn.functional.mse_loss(agent.value(obs).squeeze(-1), ret)
            loss = -surrogate.mean() + 0.5 * value_loss - 1e-3 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            opt.step()
            kls.append((ratio.detach() - 1 - log_ratio.detach()).mean())
        if torch.stack(kls).mean() > TARGET_KL:
            break


if __name__ == "__main__":
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env, agent = PointEnv(16, device), Agent().to(device)
    opt = torch.optim.Adam(agent.parameters(), lr=5e-3, eps=1e-5)
    for it in range(10):
        data, mean_reward = collect(env, agent, horizon=32)
        update(agent, opt, data)
        if it % 3 == 0:
            print(f"iteration {it}: mean reward {mean_reward.item():.3f}")
