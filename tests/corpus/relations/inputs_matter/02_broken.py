"""Cross attention block of the caption decoder."""
import torch
import torch.nn.functional as F
from torch import nn


class CrossAttention(nn.Module):
    """Lets a sequence of text states look at image tokens.

    Args:
        dim: width of both streams.
        heads: number of heads.

    forward(x, context): x (B, T, dim), context (B, S, dim) -> (B, T, dim)
    """

    def __init__(self, dim: int = 64, heads: int = 4):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.norm_ctx = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def _split(self, t: torch.Tensor) -> torch.Tensor:
        b, n, d = t.shape
        return t.view(b, n, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        residual = x
        x = self.norm(x)
        context = self.norm_ctx(context)
        q = self.to_q(x)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        y = F.scaled_dot_product_attention(self._split(q), self._split(k), self._split(v))
        y = y.transpose(1, 2).flatten(2)
        return residual + self.proj(y)
