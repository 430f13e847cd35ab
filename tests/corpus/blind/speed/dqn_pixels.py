# target: DQNLearner.train_step
# truth: Slow (with a UserWarning): building a tensor from a list of numpy frames converts element by element, hundreds of times slower than stacking the frames with np.stack / np.array first; it costs more than the network update itself.
"""DQN learner for pixel observations (84x84x4 uint8 frame stacks)."""
import random
from collections import deque
from typing import List, NamedTuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Transition(NamedTuple):
    obs: np.ndarray
    action: int
    reward: float
    next_obs: np.ndarray
    done: bool


class ReplayMemory:
    def __init__(self, capacity: int = 100_000):
        self.buffer = deque(maxlen=capacity)

    def push(self, *args) -> None:
        self.buffer.append(Transition(*args))

    def sample(self, batch_size: int) -> List[Transition]:
        return random.sample(self.buffer, batch_size)

    def __len__(self) -> int:
        return len(self.buffer)


class QNetwork(nn.Module):
    def __init__(self, n_actions: int):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 16, 8, stride=4), nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(),
            nn.Flatten(),
        )
        self.fc = nn.Sequential(nn.Linear(32 * 9 * 9, 256), nn.ReLU(), nn.Linear(256, n_actions))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.fc(self.conv(obs.float() / 255.0))


def frames_to_tensor(frames, device):
    return torch.tensor(frames, device=device)  # error: DG609


class DQNLearner:
    def __init__(self, n_actions: int, lr: float = 1e-4, gamma: float = 0.99, device: str = "cpu"):
        self.device = torch.device(device)
        self.q = QNetwork(n_actions).to(self.device)
        self.target = QNetwork(n_actions).to(self.device)
        self.target.load_state_dict(self.q.state_dict())
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.gamma = gamma

    def sync_target(self) -> None:
        self.target.load_state_dict(self.q.state_dict())

    def train_step(self, memory: ReplayMemory, batch_size: int = 32) -> float:
        batch = memory.sample(batch_size)
        obs = frames_to_tensor([t.obs for t in batch], self.device)
        next_obs = frames_to_tensor([t.next_obs for t in batch], self.device)
        action = torch.tensor([t.action for t in batch], device=self.device)
        reward = torch.tensor([t.reward for t in batch], dtype=torch.float32, device=self.device)
        done = torch.tensor([t.done for t in batch], dtype=torch.float32, device=self.device)

        q = self.q(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            target = reward + self.gamma * (1 - done) * self.target(next_obs).max(dim=1).values
        loss = F.smooth_l1_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.q.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()
