# target: rerank
# truth: Padding is masked with -1e9, which float16 cannot hold; as rerank runs the model in half precision by default, masked_fill raises "value cannot be converted to type c10::Half without overflow".
"""Re-rank candidate captions of an image by cross-attention score (half-precision inference)."""
import math
from typing import List, Tuple

import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, dim: int, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, ctx: torch.Tensor, ctx_mask: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(ctx).view(b, ctx.size(1), 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(~ctx_mask[:, None, None, :], -1e9)  # error: DG409
        out = scores.softmax(dim=-1) @ v
        return self.o(out.transpose(1, 2).reshape(b, n, d))


class CaptionScorer(nn.Module):
    """Image patches attend to caption tokens; the pooled result is scored."""

    def __init__(self, vocab: int, patch_dim: int, dim: int = 64, depth: int = 2):
        super().__init__()
        self.patch = nn.Linear(patch_dim, dim)
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.layers = nn.ModuleList(CrossAttention(dim) for _ in range(depth))
        self.score = nn.Linear(dim, 1)

    def forward(self, patches: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        mask = tokens != 0
        ctx = self.embed(tokens)
        x = self.patch(patches)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x), ctx, mask)
        return self.score(x.mean(dim=1)).squeeze(-1)


@torch.inference_mode()
def rerank(
    model: CaptionScorer,
    patches: torch.Tensor,
    candidates: torch.Tensor,
    dtype: torch.dtype = torch.float16,
) -> List[Tuple[int, float]]:
    """Order candidate captions for one image.

    patches: (P, patch_dim) of the image; candidates: (K, T) token ids padded with 0,
    every row has at least one token. Returns (index, score) pairs, best first.
    """
    model = model.to(dtype).eval()
    k = candidates.size(0)
    scores = model(patches.to(dtype).expand(k, -1, -1), candidates).float()
    order = scores.argsort(descending=True)
    return [(int(i), float(scores[i])) for i in order]
