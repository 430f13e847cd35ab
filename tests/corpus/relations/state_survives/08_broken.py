from typing import Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class EMACodebook(nn.Module):
    """Vector quantiser whose codes follow moving averages of their members.

    Args:
        num_codes: entries of the codebook.
        dim: size of a code.
        decay: decay of the moving averages.
        eps: smoothing of the cluster sizes.
    """

    def __init__(self, num_codes: int, dim: int, decay: float = 0.9, eps: float = 1e-5):
        super().__init__()
        self.num_codes = num_codes
        self.decay = decay
        self.eps = eps
        codes = torch.randn(num_codes, dim)
        self.register_buffer("codes", codes)
        self.cluster_size = torch.ones(num_codes)
        self.code_sum = codes.clone()

    def forward(self, z: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the quantised vectors, their indices and the commitment loss."""
        flat = z.reshape(-1, z.shape[-1])
        index = torch.cdist(flat, self.codes).argmin(dim=1)
        quantized = self.codes[index].view_as(z)
        commit = F.mse_loss(z, quantized.detach())
        if self.training:
            self._update(flat.detach(), index)
        quantized = z + (quantized - z).detach()
        return quantized, index.view(z.shape[:-1]), commit

    @torch.no_grad()
    def _update(self, flat: torch.Tensor, index: torch.Tensor) -> None:
        onehot = F.one_hot(index, self.num_codes).to(flat.dtype)
        self.cluster_size.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
        self.code_sum.mul_(self.decay).add_(onehot.t() @ flat, alpha=1 - self.decay)
        total = self.cluster_size.sum()
        size = (self.cluster_size + self.eps) / (total + self.num_codes * self.eps) * total
        self.codes.copy_(self.code_sum / size.unsqueeze(1))
