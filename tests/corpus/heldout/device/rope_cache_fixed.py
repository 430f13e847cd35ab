# target: generate
"""Small decoder with rotary positions and greedy generation."""
import torch
import torch.nn.functional as F
from torch import nn


class RotaryTable(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        inv_freq = base ** (-torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.cos = self.sin = None

    def extend(self, length):
        position = torch.arange(length, dtype=torch.float32, device=self.inv_freq.device)
        angle = position[:, None] * self.inv_freq[None, :]
        self.cos, self.sin = angle.cos(), angle.sin()

    def forward(self, x):
        length = x.shape[-2]
        if self.cos is None or len(self.cos) < length:
            self.extend(max(64, 2 * length))
        cos, sin = self.cos[:length], self.sin[:length]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


class Block(nn.Module):
    def __init__(self, width, heads, rotary):
        super().__init__()
        self.heads = heads
        self.rotary = rotary
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocab=96, width=64, heads=4, depth=2):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        rotary = RotaryTable(width // heads)
        self.blocks = nn.ModuleList([Block(width, heads, rotary) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


@torch.inference_mode()
def generate(prompt=(3, 14, 15, 92), new_tokens=12, device=None):
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = Decoder().to(device).eval()
    ids = torch.tensor([list(prompt)], device=device)
    for _ in range(new_tokens):
        nxt = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, nxt], dim=1)
    return ids[0].tolist()


if __name__ == "__main__":
    print(generate())
