"""S2: an in-place clamp on an argument whose origin no caller shows: it may break a backward, or may not."""

import torch


def log_prob(scores: torch.Tensor) -> torch.Tensor:
    scores.clamp_(min=1e-6)  # expect: DG101 info
    return scores.log()
