# source: https://github.com/meta-pytorch/torchtune/pull/1803
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class KVCache(nn.Module):
    def __init__(self, batch_size: int, max_seq_len: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        shape = (batch_size, num_heads, max_seq_len, head_dim)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)
        self.size = 0

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        end = self.size + k.shape[2]
        self.k_cache[:, :, self.size:end] = k
        self.v_cache[:, :, self.size:end] = v
        self.size = end
        return self.k_cache[:, :, :end], self.v_cache[:, :, :end]


class MultiHeadAttention(nn.Module):
    """Grouped-query attention: num_kv_heads key and value heads serve num_heads query heads."""

    def __init__(self, embed_dim: int, num_heads: int, num_kv_heads: int, attn_dropout: float = 0.0) -> None:
        super().__init__()
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads ({num_heads}) % num_kv_heads ({num_kv_heads}) must be 0")
        if not 0 <= attn_dropout <= 1:
            raise ValueError(f"attn_dropout ({attn_dropout}) must be between 0.0 and 1.0")
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = embed_dim // num_heads
        self.attn_dropout = attn_dropout
        self.q_proj = nn.Linear(embed_dim, num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, num_kv_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.kv_cache: Optional[KVCache] = None

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        b, s, _ = x.shape
        q = self.q_proj(x).view(b, s, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, s, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, s, self.num_kv_heads, self.head_dim).transpose(1, 2)
        if self.kv_cache is not None:
            k, v = self.kv_cache.update(k, v)
        groups = self.num_heads // self.num_kv_heads
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)
        output = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            dropout_p=self.attn_dropout if self.training else 0.0,
            is_causal=self.kv_cache is None and mask is None,
        )
        return self.output_proj(output.transpose(1, 2).reshape(b, s, -1))


class DecoderLayer(nn.Module):
    def __init__(self, dim: int, num_heads: int, num_kv_heads: int, attn_dropout: float) -> None:
        super().__init__()
        self.attn = MultiHeadAttention(dim, num_heads, num_kv_heads, attn_dropout)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
        self.sa_norm = nn.RMSNorm(dim)
        self.mlp_norm = nn.RMSNorm(dim)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        h = x + self.attn(self.sa_norm(x), mask)
        return h + self.mlp(self.mlp_norm(h))


class TransformerDecoder(nn.Module):
    def __init__(self, vocab: int = 50, dim: int = 32, depth: int = 2, num_heads: int = 4, num_kv_heads: int = 2,
                 attn_dropout: float = 0.0) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(DecoderLayer(dim, num_heads, num_kv_heads, attn_dropout) for _ in range(depth))
        self.norm = nn.RMSNorm(dim)
        self.output = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h, mask)
        return self.output(self.norm(h)).float()


@torch.no_grad()
def score(model: TransformerDecoder, tokens: Tensor) -> float:
    model.eval()
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()


if __name__ == "__main__":
    torch.manual_seed(0)
    lm = TransformerDecoder(attn_dropout=0.3)
    prompt = torch.randint(0, 50, (2, 12))
    print("nll:", score(lm, prompt), score(lm, prompt))
