"""Masked attention in half precision: softmax in float32, a finite fill value, and float32 norms."""
import math

import torch
import torch.nn as nn


class SafeAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, 1.0 / math.sqrt(dim // heads)
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, keep):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        scores = (q * self.scale) @ k.transpose(-2, -1)
        scores = scores.masked_fill(~keep[:, None, None, :], torch.finfo(scores.dtype).min)
        attn = scores.softmax(dim=-1, dtype=torch.float32).to(v.dtype)
        return self.out((attn @ v).transpose(1, 2).reshape(b, n, d))


class Model(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.norm = nn.LayerNorm(dim)
        self.attn = SafeAttention(dim, 4)
        self.head = nn.Linear(dim, 1)

    def forward(self, x, keep):
        h = self.embed(x)
        h = h + self.attn(self.norm(h), keep)
        return self.head(h[:, 0]).squeeze(-1)


def batch(n, device, length=8):
    size = torch.randint(1, length + 1, (n, 1), device=device)
    keep = torch.arange(length, device=device) < size
    x = torch.randn(n, length, 2, device=device) * keep.unsqueeze(-1)
    target = x[..., 0].sum(dim=1) / size.squeeze(1)
    return x, keep, target


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Model().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for i in range(80):
        x, keep, y = batch(32, device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            pred = model(x, keep)
        loss = nn.functional.mse_loss(pred.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 0:
            print(i, round(loss.item(), 4))
