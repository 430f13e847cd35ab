# target: grpo_step
# truth: A prompt that keeps a single completion has count - 1 = 0, its standard deviation is 0/0 = NaN, its advantage
#   NaN and with it the loss and, after the step, every weight of the policy.
"""Group-relative policy optimisation: advantages are rewards standardised within the completions of one prompt."""
from __future__ import annotations

import torch
import torch.nn.functional as F


def group_moments(values: torch.Tensor, group: torch.Tensor, num_groups: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and sample standard deviation of `values` per group.

    values: (N,) float, group: (N,) int64 in [0, num_groups). How many completions survive the length
    filter differs from prompt to prompt.
    """
    count = values.new_zeros(num_groups).index_add_(0, group, torch.ones_like(values))
    mean = torch.zeros_like(count).index_add_(0, group, values) / count.clamp_min(1)
    centred = values - mean[group]
    sq_sum = torch.zeros_like(count).index_add_(0, group, centred.square())
    std = (sq_sum / (count - 1)).sqrt()  # error: DG402|DG410
    return mean, std


@torch.no_grad()
def group_advantages(rewards: torch.Tensor, group: torch.Tensor, num_groups: int, eps: float = 1e-4) -> torch.Tensor:
    mean, std = group_moments(rewards, group, num_groups)
    return (rewards - mean[group]) / (std[group] + eps)


def token_logps(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Log-probability of each taken token; logits (N, T, V), tokens (N, T)."""
    return -F.cross_entropy(logits.transpose(1, 2), tokens, reduction="none")


def grpo_loss(
    logits: torch.Tensor,
    tokens: torch.Tensor,
    mask: torch.Tensor,
    old_logps: torch.Tensor,
    rewards: torch.Tensor,
    group: torch.Tensor,
    num_groups: int,
    clip: float = 0.2,
) -> torch.Tensor:
    """Clipped surrogate averaged over the completion tokens selected by `mask` (N, T)."""
    adv = group_advantages(rewards, group, num_groups).unsqueeze(1)
    ratio = (token_logps(logits, tokens) - old_logps).exp()
    surrogate = torch.minimum(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    mask = mask.to(surrogate.dtype)
    return -(surrogate * mask).sum() / mask.sum().clamp_min(1)


def grpo_step(policy, optimizer, inputs: torch.Tensor, batch: dict, max_norm: float = 1.0) -> torch.Tensor:
    """One update; `inputs` are the tokens shifted right, `batch` the other arguments of grpo_loss."""
    loss = grpo_loss(policy(inputs), **batch)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), max_norm)
    optimizer.step()
    return loss.detach()
