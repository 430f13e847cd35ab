"""Return and advantage estimation for padded batches of episodes."""
from dataclasses import dataclass

import torch


@dataclass
class EpisodeBatch:
    rewards: torch.Tensor  # (E, T)
    values: torch.Tensor  # (E, T)
    mask: torch.Tensor  # (E, T), 1 while the episode runs


def discounted_returns(rewards: torch.Tensor, mask: torch.Tensor, gamma: float = 0.99) -> torch.Tensor:
    """Discounted reward-to-go for each step, zero outside of the episode.

    rewards and mask are (episodes, steps).
    """
    out = torch.zeros_like(rewards)
    running = torch.zeros_like(rewards[:, 0])
    for t in range(rewards.size(1) - 1, -1, -1):
        running = rewards[:, t] * mask[:, t] + gamma * running
        out[:, t] = running
    return out * mask


def advantages(batch: EpisodeBatch, gamma: float = 0.99) -> torch.Tensor:
    """Returns minus the value baseline, masked."""
    ret = discounted_returns(batch.rewards, batch.mask, gamma)
    return (ret - batch.values) * batch.mask


def value_loss(batch: EpisodeBatch, gamma: float = 0.99) -> torch.Tensor:
    adv = advantages(batch, gamma)
    return adv.pow(2).sum() / batch.mask.sum().clamp(min=1)
