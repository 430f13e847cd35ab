# source: https://github.com/Metta-AI/metta/pull/1139
# target: RolloutTrainer.rollout
# truth: the LSTM state goes into the experience buffer with its autograd graph; stored states chain to all earlier
#   forward passes, memory grows with every rollout step and each rollout gets slower to free
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import torch
from torch import nn
from torch.distributions import Categorical

State = Tuple[torch.Tensor, torch.Tensor]


class VecGrid:
    """A batch of agents that should step towards a marker on a line."""

    def __init__(self, num_envs: int, device: torch.device):
        self.num_envs, self.device = num_envs, device

    def reset(self) -> torch.Tensor:
        self.pos = torch.randint(-4, 5, (self.num_envs,), device=self.device).float()
        return self._obs()

    def step(self, actions: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        before = self.pos.abs()
        self.pos = (self.pos + actions.float() - 1).clamp(-5, 5)
        return self._obs(), before - self.pos.abs()

    def _obs(self) -> torch.Tensor:
        return torch.stack([self.pos / 5, (self.pos > 0).float()], dim=-1)


class RecurrentPolicy(nn.Module):
    def __init__(self, obs_dim: int, hidden: int, n_actions: int):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU())
        self.cell = nn.LSTMCell(hidden, hidden)
        self.actor, self.critic = nn.Linear(hidden, n_actions), nn.Linear(hidden, 1)

    def initial_state(self, n: int) -> State:
        w = self.actor.weight
        return w.new_zeros(n, self.cell.hidden_size), w.new_zeros(n, self.cell.hidden_size)

    def forward(self, obs: torch.Tensor, state: State):
        h, c = self.cell(self.encode(obs), state)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1), (h, c)


@dataclass
class Experience:
    capacity: int

    def __post_init__(self) -> None:
        self.entries: List[Dict] = []

    def store(self, **entry) -> None:
        self.entries.append(entry)
        if len(self.entries) > self.capacity:
            self.entries.pop(0)


class RolloutTrainer:
    def __init__(self, env: VecGrid, policy: RecurrentPolicy, horizon: int = 16, capacity: int = 512, gamma: float = 0.9):
        self.env, self.policy, self.horizon, self.gamma = env, policy, horizon, gamma
        self.experience = Experience(capacity)
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
        self.obs: Optional[torch.Tensor] = None
        self.state: Optional[State] = None

    def rollout(self) -> float:
        if self.obs is None:
            self.obs, self.state = self.env.reset(), self.policy.initial_state(self.env.num_envs)
        rewards = []
        for _ in range(self.horizon):
            dist, value, new_state = self.policy(self.obs, self.state)
            action = dist.sample()
            next_obs, reward = self.env.step(action)
            h, c = self.state
            self.experience.store(obs=self.obs, action=action, reward=reward, value=value.detach(), h=h, c=c)
            self.obs, self.state = next_obs, new_state  # culprit
            rewards.append(reward.mean())
        return torch.stack(rewards).mean().item()

    def train_on_latest(self) -> float:
        batch = self.experience.entries[-self.horizon:]
        running, returns = torch.zeros_like(batch[-1]["value"]), []
        for e in reversed(batch):
            running = e["reward"] + self.gamma * running
            returns.insert(0, running)
        loss = torch.zeros((), device=running.device)
        for e, ret in zip(batch, returns):
            dist, value, _ = self.policy(e["obs"], (e["h"].detach(), e["c"].detach()))
            loss = loss - (dist.log_prob(e["action"]) * (ret - e["value"])).mean() + (value - ret).pow(2).mean()
        self.optimizer.zero_grad()
        (loss / len(batch)).backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trainer = RolloutTrainer(VecGrid(32, device), RecurrentPolicy(2, 32, 3).to(device))
    for update in range(8):
        reward, loss = trainer.rollout(), trainer.train_on_latest()
        print(f"update {update} reward {reward:.3f} loss {loss:.3f}")
    kept = sum(e["h"].grad_fn is not None for e in trainer.experience.entries)
    print("entries", len(trainer.experience.entries), "holding a graph", kept)
