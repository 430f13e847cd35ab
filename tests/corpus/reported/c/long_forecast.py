# source: https://github.com/zhouhaoyi/Informer2020/issues/59
# target: AttentionLayer.forward
# truth: the head dimension is moved with view instead of a transpose, so the values of different time steps and heads
#   are mixed; the shapes fit, but the causal mask no longer hides the future and the attention is meaningless
import argparse
import math

import torch
import torch.nn as nn


class TriangularCausalMask:
    def __init__(self, B, L, device="cpu"):
        with torch.no_grad():
            self._mask = torch.triu(torch.ones([B, 1, L, L], dtype=torch.bool, device=device), diagonal=1)

    @property
    def mask(self):
        return self._mask


class FullAttention(nn.Module):
    def __init__(self, mask_flag=True, scale=None, attention_dropout=0.1):
        super().__init__()
        self.scale = scale
        self.mask_flag = mask_flag
        self.dropout = nn.Dropout(attention_dropout)

    @staticmethod
    def _heads_first(x):
        B, L, H, D = x.shape
        return x.view(B, H, L, D)  # culprit

    def forward(self, queries, keys, values, attn_mask=None):
        B, L, H, E = queries.shape
        queries, keys, values = map(self._heads_first, (queries, keys, values))
        scale = self.scale or 1.0 / math.sqrt(E)
        scores = torch.matmul(queries, keys.transpose(-2, -1)) * scale
        if self.mask_flag:
            if attn_mask is None:
                attn_mask = TriangularCausalMask(B, L, device=queries.device)
            scores = scores.masked_fill(attn_mask.mask, -math.inf)
        A = self.dropout(torch.softmax(scores, dim=-1))
        return torch.matmul(A, values).transpose(1, 2).contiguous()


class AttentionLayer(nn.Module):
    def __init__(self, attention, d_model, n_heads):
        super().__init__()
        d_keys = d_model // n_heads
        self.inner_attention = attention
        self.query_projection = nn.Linear(d_model, d_keys * n_heads)
        self.key_projection = nn.Linear(d_model, d_keys * n_heads)
        self.value_projection = nn.Linear(d_model, d_keys * n_heads)
        self.out_projection = nn.Linear(d_keys * n_heads, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values, attn_mask=None):
        B, L, _ = queries.shape
        S = keys.shape[1]
        H = self.n_heads
        queries = self.query_projection(queries).view(B, L, H, -1)
        keys = self.key_projection(keys).view(B, S, H, -1)
        values = self.value_projection(values).view(B, S, H, -1)
        out = self.inner_attention(queries, keys, values, attn_mask)
        return self.out_projection(out.view(B, L, -1))


class DecoderLayer(nn.Module):
    def __init__(self, self_attention, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.self_attention = self_attention
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.dropout(self.self_attention(x, x, x, attn_mask=mask)))
        return self.norm2(x + self.dropout(self.ff(x)))


class CausalForecaster(nn.Module):
    """Predicts the next value of each series at every position."""

    def __init__(self, c_in, d_model=16, n_heads=2, layers=1, dropout=0.0):
        super().__init__()
        self.embedding = nn.Conv1d(c_in, d_model, kernel_size=1)
        self.layers = nn.ModuleList(
            DecoderLayer(AttentionLayer(FullAttention(True, attention_dropout=dropout), d_model, n_heads),
                         d_model, d_model * 2, dropout) for _ in range(layers))
        self.projection = nn.Linear(d_model, c_in)

    def forward(self, x):
        h = self.embedding(x.transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            h = layer(h)
        return self.projection(h)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seq_len", type=int, default=16)
    parser.add_argument("--train_epochs", type=int, default=10)
    args = parser.parse_args([])
    torch.manual_seed(2021)
    model = CausalForecaster(c_in=2)
    optim = torch.optim.Adam(model.parameters(), lr=1e-3)
    series = torch.randn(12, args.seq_len + 1, 2).cumsum(dim=1) / 4
    for epoch in range(args.train_epochs):
        loss = nn.functional.mse_loss(model(series[:, :-1]), series[:, 1:])
        optim.zero_grad()
        loss.backward()
        optim.step()
        print(f"Epoch: {epoch + 1} | Train Loss: {loss.item():.5f}")


if __name__ == "__main__":
    main()
