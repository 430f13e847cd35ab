# source: https://github.com/NVIDIA/Megatron-LM/pull/411
# target: FlashSelfAttention.forward
# truth: the first forward in eval mode overwrites self.dropout_p with 0, so after a validation pass attention dropout
#   stays off for the rest of the training, with no error
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class TransformerConfig:
    hidden_size: int = 64
    num_attention_heads: int = 4
    ffn_hidden_size: int = 128
    num_layers: int = 2
    attention_dropout: float = 0.1
    hidden_dropout: float = 0.1
    use_flash_attn: bool = True


class FlashSelfAttention(nn.Module):
    """Scaled dot product attention on (b, s, h, d) inputs through the fused kernel."""

    def __init__(self, causal: bool = False, softmax_scale: float | None = None, attention_dropout: float = 0.0):
        super().__init__()
        self.causal = causal
        self.softmax_scale = softmax_scale
        self.dropout_p = attention_dropout

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not all(t.dim() == 4 for t in (q, k, v)):
            raise ValueError("expected (b, s, h, d) inputs")
        is_causal = self.causal
        if not self.training:
            is_causal = self.causal and q.size(1) == k.size(1)
            self.dropout_p = 0.0  # culprit
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        out = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout_p, is_causal=is_causal, scale=self.softmax_scale
        )
        return out.transpose(1, 2)


class CoreAttention(nn.Module):
    """Unfused reference."""

    def __init__(self, causal: bool, attention_dropout: float):
        super().__init__()
        self.causal = causal
        self.attention_dropout = nn.Dropout(attention_dropout)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.size(-1) ** -0.5
        if self.causal and q.size(1) == k.size(1):
            future = torch.ones(q.size(1), k.size(1), dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        probs = self.attention_dropout(scores.softmax(dim=-1))
        return torch.einsum("bhqk,bkhd->bqhd", probs, v)


class ParallelAttention(nn.Module):
    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.heads = config.num_attention_heads
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        if config.use_flash_attn:
            self.core_attention = FlashSelfAttention(causal=True, attention_dropout=config.attention_dropout)
        else:
            self.core_attention = CoreAttention(True, config.attention_dropout)

    def forward(self, hidden: Tensor, past: tuple[Tensor, Tensor] | None = None):
        q, k, v = self.query_key_value(hidden).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in (q, k, v))
        if past is not None:
            k = torch.cat([past[0], k], dim=1)
            v = torch.cat([past[1], v], dim=1)
        context = self.core_attention(q, k, v)
        return self.dense(context.flatten(2)), (k, v)


class TransformerLayer(nn.Module):
    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.input_norm = nn.LayerNorm(config.hidden_size)
        self.attention = ParallelAttention(config)
        self.post_norm = nn.LayerNorm(config.hidden_size)
        self.mlp = nn.Sequential(
            nn.Linear(config.hidden_size, config.ffn_hidden_size),
            nn.GELU(),
            nn.Linear(config.ffn_hidden_size, config.hidden_size),
        )
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, hidden: Tensor, past: tuple[Tensor, Tensor] | None = None):
        attn, present = self.attention(self.input_norm(hidden), past)
        hidden = hidden + self.dropout(attn)
        return hidden + self.dropout(self.mlp(self.post_norm(hidden))), present
