# source: https://github.com/gazelle93/Transformer-Various-Positional-Encoding/issues/1
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class RelativePosition(nn.Module):
    """Learned vectors for clipped distances between positions (Shaw et al.)."""

    def __init__(self, head_dim, max_distance):
        super().__init__()
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        nn.init.xavier_uniform_(self.table)

    def forward(self, length_q, length_k):
        q = torch.arange(length_q, device=self.table.device)
        k = torch.arange(length_k, device=self.table.device)
        distance = (k[None, :] - q[:, None]).clamp(-self.max_distance, self.max_distance)
        return self.table[distance + self.max_distance]


class RelativeScaledDotProductAttention(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.scale = 1.0 / math.sqrt(head_dim)

    def forward(self, query, key, value, a_key, a_value, mask=None):
        """query, key, value (batch * heads, time, head_dim), a_key and a_value (time, time, head_dim)."""
        content = torch.bmm(query, key.transpose(1, 2))
        position = torch.einsum("nqd,qkd->nqk", query, a_key)
        score = (content + position) * self.scale
        if mask is not None:
            score = score.masked_fill(mask == 0, torch.finfo(score.dtype).min)
        attn = F.softmax(score, dim=-1)
        output = torch.bmm(attn, value) + torch.einsum("nqk,qkd->nqd", attn, a_value)
        return output, attn


class RelativeMultiHeadAttention(nn.Module):
    def __init__(self, emb_dim, num_heads, max_distance=16, dropout=0.1):
        super().__init__()
        if emb_dim % num_heads:
            raise ValueError("emb_dim must be a multiple of num_heads")
        self.num_heads = num_heads
        self.head_dim = emb_dim // num_heads
        self.q_linear = nn.Linear(emb_dim, emb_dim)
        self.k_linear = nn.Linear(emb_dim, emb_dim)
        self.v_linear = nn.Linear(emb_dim, emb_dim)
        self.out = nn.Linear(emb_dim, emb_dim)
        self.relative_k = RelativePosition(self.head_dim, max_distance)
        self.relative_v = RelativePosition(self.head_dim, max_distance)
        self.attention = RelativeScaledDotProductAttention(self.head_dim)
        self.dropout = nn.Dropout(dropout)

    def reshape_from_linear(self, batch_size, tensor):
        tensor = tensor.view(batch_size, -1, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        return tensor.contiguous().view(batch_size * self.num_heads, -1, self.head_dim)

    def reshape_to_concat(self, batch_size, tensor):
        tensor = tensor.permute(0, 2, 1, 3)
        return tensor.contiguous().view(batch_size, -1, self.num_heads * self.head_dim)

    def forward(self, query, key, value, mask=None):
        batch_size, length_q, _ = query.size()
        q = self.reshape_from_linear(batch_size, self.q_linear(query))
        k = self.reshape_from_linear(batch_size, self.k_linear(key))
        v = self.reshape_from_linear(batch_size, self.v_linear(value))
        if mask is not None:
            mask = mask.repeat_interleave(self.num_heads, dim=0)
        a_key = self.relative_k(length_q, k.size(1))
        a_value = self.relative_v(length_q, k.size(1))
        output, attn_score = self.attention(q, k, v, a_key, a_value, mask)
        output = output.view(batch_size, self.num_heads, -1, self.head_dim)
        output = self.reshape_to_concat(batch_size, output)
        return self.dropout(self.out(output)), attn_score


class EncoderLayer(nn.Module):
    def __init__(self, emb_dim, num_heads, ff_dim, dropout=0.1):
        super().__init__()
        self.attn = RelativeMultiHeadAttention(emb_dim, num_heads, dropout=dropout)
        self.norm1 = nn.LayerNorm(emb_dim)
        self.norm2 = nn.LayerNorm(emb_dim)
        self.ff = nn.Sequential(nn.Linear(emb_dim, ff_dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(ff_dim, emb_dim))

    def forward(self, x, mask=None):
        attended, _ = self.attn(x, x, x, mask)
        x = self.norm1(x + attended)
        return self.norm2(x + self.ff(x))
