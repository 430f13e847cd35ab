# source: https://github.com/open-mmlab/mmcv/pull/1418
"""Configurable transformer layers (self attention, cross attention, norm, ffn)."""
import copy

import torch
from torch import nn


def transposed_io(forward):
    """Let an attention on (n, batch, dim) be called with (batch, n, dim)."""

    def wrapper(query, key, value, **kwargs):
        query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        out, weights = forward(query, key, value, **kwargs)
        return out.transpose(0, 1), weights

    return wrapper


class MultiheadAttention(nn.Module):
    def __init__(self, embed_dims, num_heads, attn_drop=0.0, proj_drop=0.0, batch_first=False):
        super().__init__()
        self.embed_dims = embed_dims
        self.num_heads = num_heads
        self.batch_first = batch_first
        self.attn = nn.MultiheadAttention(embed_dims, num_heads, attn_drop)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, query, key=None, value=None, identity=None, query_pos=None, key_pos=None, key_padding_mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        if identity is None:
            identity = query
        if key_pos is None and query_pos is not None and query_pos.shape == key.shape:
            key_pos = query_pos
        if query_pos is not None:
            query = query + query_pos
        if key_pos is not None:
            key = key + key_pos
        attend = transposed_io(self.attn) if self.batch_first else self.attn
        out, _ = attend(query, key, value, key_padding_mask=key_padding_mask)
        return identity + self.proj_drop(out)


class FFN(nn.Module):
    def __init__(self, embed_dims, feedforward_channels, ffn_drop=0.0):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(embed_dims, feedforward_channels),
            nn.ReLU(inplace=True),
            nn.Dropout(ffn_drop),
            nn.Linear(feedforward_channels, embed_dims),
            nn.Dropout(ffn_drop),
        )

    def forward(self, x):
        return x + self.layers(x)


class BaseTransformerLayer(nn.Module):
    def __init__(self, attn_cfg, operation_order, feedforward_channels=128, ffn_drop=0.0):
        super().__init__()
        allowed = {"self_attn", "norm", "ffn", "cross_attn"}
        if set(operation_order) - allowed:
            raise ValueError(f"operations must be among {sorted(allowed)}")
        self.operation_order = tuple(operation_order)
        dims = attn_cfg["embed_dims"]
        n_attn = sum(op.endswith("attn") for op in operation_order)
        self.attentions = nn.ModuleList([MultiheadAttention(**attn_cfg) for _ in range(n_attn)])
        self.ffns = nn.ModuleList([FFN(dims, feedforward_channels, ffn_drop) for _ in range(operation_order.count("ffn"))])
        self.norms = nn.ModuleList([nn.LayerNorm(dims) for _ in range(operation_order.count("norm"))])

    def forward(self, query, memory=None, query_pos=None, memory_pos=None, memory_mask=None):
        attn, norm, ffn = iter(self.attentions), iter(self.norms), iter(self.ffns)
        for op in self.operation_order:
            if op == "self_attn":
                query = next(attn)(query, query_pos=query_pos)
            elif op == "cross_attn":
                query = next(attn)(
                    query, memory, memory, query_pos=query_pos, key_pos=memory_pos, key_padding_mask=memory_mask
                )
            elif op == "norm":
                query = next(norm)(query)
            else:
                query = next(ffn)(query)
        return query


def reset_parameters(module):
    for p in module.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)


class TransformerLayerSequence(nn.Module):
    def __init__(self, layer, num_layers, post_norm=False):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.post_norm = nn.LayerNorm(layer.attentions[0].embed_dims) if post_norm else nn.Identity()
        reset_parameters(self)

    def forward(self, query, **kwargs):
        for layer in self.layers:
            query = layer(query, **kwargs)
        return self.post_norm(query)
