"""A character-level GPT with a key-value cache whose cached and full passes agree."""
import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the quick brown fox jumps over the lazy dog. " * 8
CHARS = sorted(set(TEXT))
STOI = {c: i for i, c in enumerate(CHARS)}
BLOCK = 32


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
        # one new token may look at all that is cached; a block of tokens needs the causal mask
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, cache=None):
        x = x + self.attn(self.ln1(x), cache)
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab, dim=32, heads=4, depth=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(BLOCK, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, idx, start=0, caches=None):
        pos = torch.arange(start, start + idx.size(1), device=idx.device)
        x = self.tok(idx) + self.pos(pos)
        for i, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[i])
        return self.head(self.ln(x))

    @torch.no_grad()
    def generate(self, prompt, n):
        """The prompt and all new tokens but the last must fit in one block."""
        assert prompt.size(1) + n - 1 <= BLOCK
        caches = [{} for _ in self.blocks]
        out, feed, start = prompt, prompt, 0
        for _ in range(n):
            logits = self(feed, start, caches)
            start += feed.size(1)
            feed = logits[:, -1].argmax(dim=-1, keepdim=True)
            out = torch.cat([out, feed], dim=1)
        return out


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = torch.tensor([STOI[c] for c in TEXT], device=device)
    model = GPT(len(CHARS)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    offsets = torch.arange(BLOCK + 1, device=device)
    for step in range(60):
        start = torch.randint(len(data) - BLOCK, (16, 1), device=device)
        chunk = data[start + offsets]
        logits = model(chunk[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.3f}")
    model.eval()
    out = model.generate(data[:4].unsqueeze(0), 20)
    with torch.no_grad():
        full = model(out[:, :-1]).argmax(-1)
    assert torch.equal(full[:, 3:], out[:, 4:])
    print("".join(CHARS[i] for i in out[0].tolist()))


if __name__ == "__main__":
    main()
