"""Decoder-only language model on modular addition."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DecoderLM(nn.Module):
    def __init__(self, vocab, dim=48, heads=4, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.block = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        n = ids.size(1)
        positions = torch.arange(n)
        h = self.tok(ids) + self.pos(positions)
        causal = torch.ones(n, n, dtype=torch.bool, device=ids.device).triu(1)
        h = self.norm(self.block(h, src_mask=causal))
        return h @ self.tok.weight.t()


def additions(n, base=11):
    a, b = torch.randint(0, base, (2, n))
    sep = torch.full((n,), base)
    return torch.stack([a, b, sep, (a + b) % base], dim=1)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DecoderLM(12).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(30):
        ids = additions(64).to(device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits[:, -1], ids[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
