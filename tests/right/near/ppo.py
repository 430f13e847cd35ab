"""Proximal policy optimisation on a toy problem: advantages are computed without a graph."""
import torch
from torch import nn
from torch.distributions import Categorical

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class ActorCritic(nn.Module):
    def __init__(self, obs=4, actions=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.Tanh())
        self.pi, self.v = nn.Linear(32, actions), nn.Linear(32, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class Walk:
    """A state that drifts; action 1 is right where the first coordinate is positive."""

    def __init__(self, n=4):
        self.state = torch.randn(n, 4)

    def step(self, action):
        reward = ((self.state[:, 0] > 0) == (action == 1)).float()
        self.state = 0.9 * self.state + 0.3 * torch.randn_like(self.state)
        done = torch.rand(len(action)) < 0.1
        self.state = torch.where(done[:, None], torch.randn_like(self.state), self.state)
        return self.state, reward, done


@torch.no_grad()
def collect(net, env, horizon):
    obs, acts, logps, vals, rews, dones = [], [], [], [], [], []
    state = env.state
    for _ in range(horizon):
        pi, v = net(state.to(device))
        action = pi.sample()
        obs.append(state.to(device))
        acts.append(action)
        logps.append(pi.log_prob(action))
        vals.append(v)
        state, reward, done = env.step(action.cpu())
        rews.append(reward.to(device))
        dones.append(done.to(device))
    last = net(state.to(device))[1]
    return [torch.stack(each) for each in (obs, acts, logps, vals, rews, dones)], last


def gae(rewards, values, dones, last, gamma=0.99, lam=0.95):
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        following = values[t + 1] if t + 1 < len(rewards) else last
        alive = (~dones[t]).float()
        delta = rewards[t] + gamma * following * alive - values[t]
        running = delta + gamma * lam * alive * running
        advantages[t] = running
    return advantages, advantages + values


def update(net, optimizer, batch, last, clip=0.2, epochs=3, size=16):
    obs, acts, old, vals, rews, dones = batch
    adv, ret = gae(rews, vals, dones, last)
    obs, acts, old, adv, ret = (x.flatten(0, 1) for x in (obs, acts, old, adv, ret))
    for _ in range(epochs):
        for index in torch.randperm(len(obs), device=device).split(size):
            pi, v = net(obs[index])
            ratio = (pi.log_prob(acts[index]) - old[index]).exp()
            a = adv[index]
            a = (a - a.mean()) / (a.std() + 1e-8)
            policy = -torch.min(ratio * a, ratio.clamp(1 - clip, 1 + clip) * a).mean()
            loss = policy + 0.5 * (v - ret[index]).square().mean() - 0.01 * pi.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()


def main(iterations=3):
    torch.manual_seed(0)
    net, env = ActorCritic().to(device), Walk()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1e-5)
    for _ in range(iterations):
        batch, last = collect(net, env, 16)
        update(net, optimizer, batch, last)
    return batch[4].mean().item()


if __name__ == "__main__":
    print(main())
