# source: https://github.com/DLR-RM/stable-baselines3/issues/325
from dataclasses import dataclass
from typing import Generator, NamedTuple

import torch as th
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F


class RolloutSamples(NamedTuple):
    observations: th.Tensor
    actions: th.Tensor
    old_log_prob: th.Tensor
    advantages: th.Tensor
    returns: th.Tensor


class RolloutBuffer:
    def __init__(self, gamma: float, gae_lambda: float):
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self.reset()

    def reset(self) -> None:
        self.obs, self.actions, self.rewards, self.dones, self.values, self.log_probs = ([] for _ in range(6))

    def add(self, obs, action, reward, done, value, log_prob) -> None:
        for store, item in zip(
            (self.obs, self.actions, self.rewards, self.dones, self.values, self.log_probs),
            (obs, action, reward, done, value, log_prob),
        ):
            store.append(item)

    def finish(self, last_value: th.Tensor) -> None:
        values = th.stack(self.values + [last_value])
        adv = th.zeros(len(self.rewards))
        running = 0.0
        for t in reversed(range(len(self.rewards))):
            alive = 1.0 - self.dones[t]
            delta = self.rewards[t] + self.gamma * values[t + 1] * alive - values[t]
            running = delta + self.gamma * self.gae_lambda * alive * running
            adv[t] = running
        self.advantages, self.returns = adv, adv + values[:-1]

    def get(self, batch_size: int) -> Generator[RolloutSamples, None, None]:
        indices = th.randperm(len(self.rewards))
        obs, actions, logp = th.stack(self.obs), th.stack(self.actions), th.stack(self.log_probs)
        for start in range(0, len(indices), batch_size):
            idx = indices[start:start + batch_size]
            yield RolloutSamples(obs[idx], actions[idx], logp[idx], self.advantages[idx], self.returns[idx])


class ActorCritic(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh())
        self.pi, self.vf = nn.Linear(32, n_actions), nn.Linear(32, 1)

    def forward(self, obs: th.Tensor):
        h = self.shared(obs)
        return Categorical(logits=self.pi(h)), self.vf(h).squeeze(-1)


@dataclass
class PPO:
    policy: ActorCritic
    n_steps: int = 129
    batch_size: int = 64
    n_epochs: int = 2
    clip_range: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    lr: float = 3e-4

    def __post_init__(self) -> None:
        self.optimizer = th.optim.Adam(self.policy.parameters(), lr=self.lr, eps=1e-5)
        self.rollout_buffer = RolloutBuffer(0.99, 0.95)

    @th.no_grad()
    def collect_rollouts(self) -> None:
        self.rollout_buffer.reset()
        obs = th.randn(4)
        for t in range(self.n_steps):
            dist, value = self.policy(obs)
            action = dist.sample()
            reward = float(action == (obs[0] > 0))
            self.rollout_buffer.add(obs, action, reward, float(t % 20 == 19), value, dist.log_prob(action))
            obs = th.randn(4)
        self.rollout_buffer.finish(self.policy(obs)[1])

    def train(self) -> float:
        for _ in range(self.n_epochs):
            for data in self.rollout_buffer.get(self.batch_size):
                dist, values = self.policy(data.observations)
                advantages = data.advantages
                if len(advantages) > 1:
                    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                ratio = th.exp(dist.log_prob(data.actions) - data.old_log_prob)
                clipped = th.clamp(ratio, 1 - self.clip_range, 1 + self.clip_range)
                policy_loss = -th.min(advantages * ratio, advantages * clipped).mean()
                value_loss = F.mse_loss(values, data.returns)
                loss = policy_loss + self.vf_coef * value_loss - self.ent_coef * dist.entropy().mean()
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
                self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    th.manual_seed(0)
    algo = PPO(ActorCritic(4, 2))
    for it in range(3):
        algo.collect_rollouts()
        print(it, algo.train())
