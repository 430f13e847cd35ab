# target: DQNAgent.learn
# truth: ReplayBuffer.sample builds tensors from Python lists of numpy arrays (torch.tensor(list)), which converts element by element; sampling takes many times longer than the network update (with a UserWarning about slowness).
"""DQN agent for image observations (stacked 84x84 frames)."""
import random
from collections import deque, namedtuple

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "obs action reward next_obs done")


class ReplayBuffer:
    def __init__(self, capacity: int):
        self.memory = deque(maxlen=capacity)

    def push(self, obs: np.ndarray, action: int, reward: float, next_obs: np.ndarray, done: bool):
        self.memory.append(Transition(obs, action, reward, next_obs, done))

    def sample(self, batch_size: int, device):
        batch = Transition(*zip(*random.sample(self.memory, batch_size)))

        def frames(arrays):
            return torch.tensor(arrays, dtype=torch.uint8, device=device)  # error: DG609

        return (
            frames(batch.obs),
            torch.tensor(batch.action, dtype=torch.long, device=device),
            torch.tensor(batch.reward, dtype=torch.float32, device=device),
            frames(batch.next_obs),
            torch.tensor(batch.done, dtype=torch.float32, device=device),
        )

    def __len__(self):
        return len(self.memory)


class QNetwork(nn.Module):
    def __init__(self, n_actions: int, frames: int = 4):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(frames, 16, 8, stride=4), nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(32 * 9 * 9, 128), nn.ReLU(), nn.Linear(128, n_actions))

    def forward(self, obs):
        return self.head(self.conv(obs.float() / 255.0))


class DQNAgent:
    def __init__(self, n_actions: int, capacity: int = 50_000, gamma: float = 0.99, device: str = "cpu"):
        self.device = torch.device(device)
        self.q = QNetwork(n_actions).to(self.device)
        self.target = QNetwork(n_actions).to(self.device)
        self.target.load_state_dict(self.q.state_dict())
        self.buffer = ReplayBuffer(capacity)
        self.gamma = gamma
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-4)

    def learn(self, batch_size: int = 32) -> float:
        obs, action, reward, next_obs, done = self.buffer.sample(batch_size, self.device)
        q = self.q(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            next_q = self.target(next_obs).max(dim=1).values
            y = reward + self.gamma * (1.0 - done) * next_q
        loss = F.smooth_l1_loss(q, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
