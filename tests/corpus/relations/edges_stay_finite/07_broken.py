from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class PPOTerms(NamedTuple):
    """Parts of the objective."""

    policy: torch.Tensor
    value: torch.Tensor
    entropy: torch.Tensor


def categorical_entropy(logits: torch.Tensor) -> torch.Tensor:
    """Entropy in nats over the last dimension."""
    prob = F.softmax(logits, dim=-1)
    return -(prob * torch.log(prob)).sum(dim=-1)


class PPOObjective(nn.Module):
    """Clipped surrogate objective for discrete actions.

    Args:
        clip: range of the probability ratio.
        value_weight: factor of the value loss.
        entropy_weight: factor of the entropy bonus.
    """

    def __init__(self, clip: float = 0.2, value_weight: float = 0.5,
                 entropy_weight: float = 0.01):
        super().__init__()
        self.clip = clip
        self.value_weight = value_weight
        self.entropy_weight = entropy_weight

    def terms(self, logits: torch.Tensor, values: torch.Tensor, actions: torch.Tensor,
              old_log_prob: torch.Tensor, advantage: torch.Tensor,
              returns: torch.Tensor) -> PPOTerms:
        """Unweighted parts of the objective, each a scalar."""
        picked = F.log_softmax(logits, dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        ratio = torch.exp(picked - old_log_prob)
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        policy = -torch.minimum(ratio * advantage, clipped * advantage).mean()
        return PPOTerms(policy, F.mse_loss(values, returns), categorical_entropy(logits).mean())

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        parts = self.terms(*args)
        return parts.policy + self.value_weight * parts.value - self.entropy_weight * parts.entropy
