# target: ppo_loss
# truth: torch.where hides the 0*log(0) of illegal moves in the forward pass, but backward still differentiates the
#   discarded branch (0 * inf), so with any illegal move the loss is finite and all policy gradients are NaN.
"""Clipped policy-gradient loss for board games with illegal moves."""
from typing import Dict, NamedTuple, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class Rollout(NamedTuple):
    obs: Tensor          # (batch, features)
    legal: Tensor        # (batch, moves) bool, at least one legal move each
    action: Tensor       # (batch,) long
    old_log_prob: Tensor
    advantage: Tensor
    returns: Tensor


class MaskedPolicy(nn.Module):
    def __init__(self, n_features: int, n_moves: int, width: int = 64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_features, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.move = nn.Linear(width, n_moves)
        self.value = nn.Linear(width, 1)

    def forward(self, obs: Tensor, legal: Tensor) -> Tuple[Tensor, Tensor]:
        """Log probabilities over the moves (illegal ones -inf) and state values."""
        h = self.trunk(obs)
        logits = self.move(h).masked_fill(~legal, float("-inf"))
        return F.log_softmax(logits, dim=-1), self.value(h).squeeze(-1)


def entropy(probs: Tensor) -> Tensor:
    """Shannon entropy in nats, with 0 log 0 = 0."""
    terms = torch.where(probs > 0, probs * probs.log(), 0.0)  # error: DG406|DG410
    return -terms.sum(-1)


def ppo_loss(
    policy: MaskedPolicy,
    batch: Rollout,
    clip: float = 0.2,
    value_coef: float = 0.5,
    entropy_coef: float = 0.01,
) -> Tuple[Tensor, Dict[str, Tensor]]:
    """Surrogate + value - entropy; the second result holds detached statistics."""
    log_probs, value = policy(batch.obs, batch.legal)
    taken = log_probs.gather(1, batch.action.unsqueeze(1)).squeeze(1)
    ratio = (taken - batch.old_log_prob).exp()
    surrogate = torch.minimum(
        ratio * batch.advantage,
        ratio.clamp(1.0 - clip, 1.0 + clip) * batch.advantage,
    ).mean()
    value_loss = F.mse_loss(value, batch.returns)
    probs = log_probs.exp()
    bonus = entropy(probs).mean()
    loss = -surrogate + value_coef * value_loss - entropy_coef * bonus
    stats = {
        "clip_fraction": ((ratio - 1.0).abs() > clip).float().mean(),
        "value_loss": value_loss.detach(),
        "entropy": bonus.detach(),
    }
    return loss, stats
