# target: DQNAgent.learn
# truth: The batch is made with torch.tensor() from a list of numpy arrays, which converts element by element (PyTorch warns that this is
#   extremely slow); most of each learning step goes into it instead of np.stack taking a millisecond.
"""DQN agent with stacked-frame observations."""
import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "obs action reward next_obs done")


class ReplayBuffer:
    def __init__(self, capacity=5000):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        batch = Transition(*zip(*random.sample(self.memory, batch_size)))
        obs = torch.tensor(batch.obs, dtype=torch.float32)  # error: DG609
        next_obs = torch.tensor(batch.next_obs, dtype=torch.float32)
        action = torch.tensor(batch.action, dtype=torch.int64)
        reward = torch.tensor(batch.reward, dtype=torch.float32)
        done = torch.tensor(batch.done, dtype=torch.float32)
        return obs, action, reward, next_obs, done

    def __len__(self):
        return len(self.memory)


class QNet(nn.Module):
    def __init__(self, n_actions, frames=4):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(frames, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 16, 4, 2), nn.ReLU())
        self.fc = nn.Sequential(nn.Flatten(), nn.LazyLinear(64), nn.ReLU(), nn.Linear(64, n_actions))

    def forward(self, x):
        return self.fc(self.conv(x / 255.0))


class DQNAgent:
    def __init__(self, n_actions, frame_shape=(4, 64, 64), gamma=0.99, batch_size=32):
        self.q, self.target = QNet(n_actions), QNet(n_actions)
        dummy = torch.zeros(1, *frame_shape)
        self.q(dummy), self.target(dummy)
        self.target.load_state_dict(self.q.state_dict())
        self.buffer = ReplayBuffer()
        self.gamma, self.batch_size = gamma, batch_size
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-4)

    def learn(self):
        if len(self.buffer) < self.batch_size:
            return None
        obs, action, reward, next_obs, done = self.buffer.sample(self.batch_size)
        q = self.q(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            target = reward + self.gamma * (1 - done) * self.target(next_obs).amax(1)
        loss = F.smooth_l1_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def fill(agent, steps=200, frame_shape=(4, 64, 64), n_actions=4):
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (steps + 1, *frame_shape), dtype=np.uint8)
    for t in range(steps):
        agent.buffer.push(frames[t], int(rng.integers(n_actions)), float(rng.normal()), frames[t + 1], t % 50 == 49)
