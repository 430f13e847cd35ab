# target: collect_episode
# truth: Actor.act runs the recurrent network with autograd on and carries the attached hidden state to the next step,
#   so the graph of the whole episode (up to 27000 steps) stays alive until reset; memory grows with every environment
#   step until out of memory.
"""Recurrent Q-network agent: environment rollouts with a carried hidden state (R2D2-like actor)."""
from collections import deque
from typing import Deque, Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import Tensor, nn

State = Tuple[Tensor, Tensor]


class RecurrentQ(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, hidden: int = 128):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU())
        self.core = nn.LSTM(hidden, hidden, batch_first=True)
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, n_actions)

    def forward(self, obs: Tensor, state: Optional[State] = None) -> Tuple[Tensor, State]:
        """obs: (B, T, obs_dim) -> dueling Q-values (B, T, n_actions) and the new state."""
        out, state = self.core(self.encode(obs), state)
        adv = self.adv(out)
        return self.value(out) + adv - adv.mean(dim=-1, keepdim=True), state


class Actor:
    """Epsilon-greedy behaviour policy over one environment."""

    def __init__(self, net: RecurrentQ, n_actions: int, device: torch.device, seed: int = 0):
        self.net, self.n_actions, self.device = net, n_actions, device
        self.rng = np.random.default_rng(seed)
        self.state: Optional[State] = None

    def reset(self) -> None:
        self.state = None

    def act(self, obs: np.ndarray, epsilon: float) -> int:
        x = torch.as_tensor(obs, dtype=torch.float32, device=self.device).view(1, 1, -1)
        q, self.state = self.net(x, self.state)  # error: DG506|DG508
        if self.rng.random() < epsilon:
            return int(self.rng.integers(self.n_actions))
        return int(q[0, 0].argmax())


class SequenceStore:
    def __init__(self, capacity: int, length: int):
        self.length = length
        self.sequences: Deque[Dict[str, np.ndarray]] = deque(maxlen=capacity)

    def add_episode(self, steps: List[tuple]) -> None:
        for start in range(0, len(steps) - self.length + 1, self.length // 2):
            obs, action, reward, done = zip(*steps[start:start + self.length])
            self.sequences.append({
                "obs": np.stack(obs), "action": np.asarray(action),
                "reward": np.asarray(reward, dtype=np.float32), "done": np.asarray(done),
            })


def collect_episode(env, actor: Actor, store: SequenceStore, epsilon: float, max_steps: int = 27000) -> float:
    """Plays one episode (env.reset() -> obs, env.step(a) -> obs, reward, done); returns its return."""
    actor.reset()
    obs, total, steps = env.reset(), 0.0, []
    for _ in range(max_steps):
        action = actor.act(obs, epsilon)
        next_obs, reward, done = env.step(action)
        steps.append((obs, action, reward, done))
        obs, total = next_obs, total + reward
        if done:
            break
    store.add_episode(steps)
    return total
