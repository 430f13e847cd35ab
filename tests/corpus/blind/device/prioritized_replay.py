# target: DoubleDQN.learn
# truth: PrioritizedReplay.sample moves every field to self.device except the importance weights, which stay on the CPU;
#   with device='cuda' td_loss fails at batch['weight'] * per_sample with 'RuntimeError: Expected all tensors to be on
#   the same device, but found at least two devices, cuda:0 and cpu!'. Nothing is wrong on CPU.
"""Prioritised replay and a double-DQN learner (after Schaul et al., 2016)."""
from typing import Dict, Tuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PrioritizedReplay:
    def __init__(self, capacity: int, obs_dim: int, device: torch.device, alpha: float = 0.6):
        self.capacity, self.device, self.alpha = capacity, device, alpha
        self.obs = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), dtype=np.float32)
        self.action = np.zeros(capacity, dtype=np.int64)
        self.reward = np.zeros(capacity, dtype=np.float32)
        self.done = np.zeros(capacity, dtype=np.float32)
        self.priority = np.zeros(capacity, dtype=np.float64)
        self.pos, self.size = 0, 0

    def add(self, obs, action, reward, next_obs, done) -> None:
        i = self.pos
        self.obs[i], self.next_obs[i] = obs, next_obs
        self.action[i], self.reward[i], self.done[i] = action, reward, float(done)
        self.priority[i] = self.priority[: self.size].max() if self.size else 1.0
        self.pos = (self.pos + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, batch_size: int, beta: float) -> Tuple[Dict[str, Tensor], np.ndarray]:
        probs = self.priority[: self.size] ** self.alpha
        probs /= probs.sum()
        idx = np.random.choice(self.size, batch_size, p=probs)
        fields = ("obs", "next_obs", "action", "reward", "done")
        batch = {k: torch.from_numpy(getattr(self, k)[idx]).to(self.device) for k in fields}
        w = (self.size * probs[idx]) ** (-beta)
        batch["weight"] = torch.from_numpy((w / w.max()).astype(np.float32))  # error: DG205
        return batch, idx

    def update(self, idx: np.ndarray, td_abs: np.ndarray, eps: float = 1e-5) -> None:
        self.priority[idx] = td_abs + eps


class DoubleDQN:
    def __init__(self, online: nn.Module, target: nn.Module, replay: PrioritizedReplay,
                 device: torch.device, gamma: float = 0.99, lr: float = 2.5e-4):
        self.online = online.to(device)
        self.target = target.to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)
        self.replay, self.gamma = replay, gamma
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=lr)

    def td_loss(self, batch: Dict[str, Tensor]) -> Tuple[Tensor, Tensor]:
        q = self.online(batch["obs"]).gather(1, batch["action"].unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.online(batch["next_obs"]).argmax(dim=1, keepdim=True)
            q_next = self.target(batch["next_obs"]).gather(1, best).squeeze(1)
            y = batch["reward"] + self.gamma * (1.0 - batch["done"]) * q_next
        per_sample = F.smooth_l1_loss(q, y, reduction="none")
        return (batch["weight"] * per_sample).mean(), (q.detach() - y).abs()

    def learn(self, batch_size: int = 64, beta: float = 0.4) -> Tensor:
        batch, idx = self.replay.sample(batch_size, beta)
        loss, td_abs = self.td_loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.replay.update(idx, td_abs.cpu().numpy())
        return loss.detach()
