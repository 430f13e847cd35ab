# target: ReplayBuffer.sample
# truth: The batch is built with torch.tensor() from a list of NumPy arrays, which converts element by element (PyTorch warns that it is extremely slow); sampling takes tens of times longer than stacking the arrays first.
"""Replay memory for a pixel-based DQN."""
import random
from collections import deque, namedtuple

import numpy as np
import torch

Transition = namedtuple("Transition", ["state", "action", "reward", "next_state", "done"])
FRAME_SHAPE = (4, 42, 42)


class ReplayBuffer:
    """Uniform replay; states are uint8 stacks of grey frames."""

    def __init__(self, capacity: int = 10_000, seed: int = 0):
        self.memory = deque(maxlen=capacity)
        self.rng = random.Random(seed)

    def __len__(self):
        return len(self.memory)

    def push(self, state, action, reward, next_state, done):
        self.memory.append(Transition(state, action, reward, next_state, done))

    @staticmethod
    def _frames(arrays):
        """List of (4, H, W) uint8 arrays to a float batch in [0, 1]."""
        return torch.tensor(arrays, dtype=torch.float32) / 255.0  # error: DG609

    def sample(self, batch_size: int = 32):
        batch = Transition(*zip(*self.rng.sample(self.memory, batch_size)))
        return {
            "state": self._frames(list(batch.state)),
            "next_state": self._frames(list(batch.next_state)),
            "action": torch.tensor(batch.action, dtype=torch.int64),
            "reward": torch.tensor(batch.reward, dtype=torch.float32),
            "done": torch.tensor(batch.done, dtype=torch.float32),
        }


def fill_random(buffer: ReplayBuffer, steps: int = 200, n_actions: int = 6, seed: int = 0) -> None:
    """Warm-up with a random policy."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, 256, FRAME_SHAPE, dtype=np.uint8)
    for _ in range(steps):
        frame = rng.integers(0, 256, (1, *FRAME_SHAPE[1:]), dtype=np.uint8)
        next_state = np.concatenate([state[1:], frame])
        done = bool(rng.random() < 0.02)
        buffer.push(state, int(rng.integers(n_actions)), float(rng.random() < 0.1), next_state, done)
        state = rng.integers(0, 256, FRAME_SHAPE, dtype=np.uint8) if done else next_state


if __name__ == "__main__":
    replay = ReplayBuffer()
    fill_random(replay)
    for _ in range(5):
        print({name: tuple(value.shape) for name, value in replay.sample(32).items()})
