# target: MultiHeadSelfAttention.forward
# source: https://github.com/jsbaan/transformer-from-scratch/pull/6
# truth: the (batch, heads, time, dim) result is reshaped straight to (batch, time, heads * dim) without moving the head axis back; the
#   row of a time step mixes other steps of one head. Shapes fit and nothing is raised; causality is broken too.
import torch
import torch.nn as nn


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, hidden_dim: int, num_heads: int, causal: bool = True):
        super().__init__()
        assert hidden_dim % num_heads == 0
        self.num_heads = num_heads
        self.head_dim = hidden_dim // num_heads
        self.causal = causal
        self.qkv_proj = nn.Linear(hidden_dim, 3 * hidden_dim, bias=False)
        self.o_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, dim = x.size()
        qkv = self.qkv_proj(x).reshape(batch, time, self.num_heads, 3 * self.head_dim)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)
        values = self.scaled_dot_product(q, k, v)
        values = values.reshape(batch, time, dim)  # error: DG318
        return self.o_proj(values)

    def scaled_dot_product(self, q, k, v):
        logits = q @ k.transpose(-2, -1) / self.head_dim ** 0.5
        if self.causal:
            future = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
            logits = logits.masked_fill(future, float("-inf"))
        return torch.softmax(logits, dim=-1) @ v


class DecoderBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = MultiHeadSelfAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.ff(self.n2(x))


class TinyDecoder(nn.Module):
    def __init__(self, vocab=12, dim=32, heads=4, blocks=2, max_len=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList([DecoderBlock(dim, heads) for _ in range(blocks)])
        self.lm = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.lm(x)

    @torch.no_grad()
    def generate(self, prefix, steps):
        ids = prefix
        for _ in range(steps):
            ids = torch.cat([ids, self(ids)[:, -1:].argmax(-1)], dim=1)
        return ids


def repeat_task(n, half=8, vocab=12):
    first = torch.randint(0, vocab, (n, half))
    return torch.cat([first, first], dim=1)


def train(steps=400):
    torch.manual_seed(1)
    model = TinyDecoder()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        seq = repeat_task(64)
        logits = model(seq[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 99:
            print(f"step {step + 1} loss {loss.item():.3f}")
    seq = repeat_task(200)
    out = model.generate(seq[:, :8], 8)
    print("copied tokens right:", round((out[:, 8:] == seq[:, 8:]).float().mean().item(), 3))
    return model


if __name__ == "__main__":
    train()
