"""S2: the claim is false for a non-leaf whose producer saved nothing of it: the run passes, the finding is refuted."""

import torch


# dry-run: scores=torch.rand(4, device="cuda", requires_grad=True) + 1
def log_prob(scores: torch.Tensor) -> torch.Tensor:
    scores.clamp_(min=1e-6)  # refuted: DG101
    return scores.log()
