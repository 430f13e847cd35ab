import argparse

import torch
import torch.nn as nn


class ReviewRegressor(nn.Module):
    def __init__(self, vocab, d_model=32, nhead=4, layers=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model)
        self.pos = nn.Parameter(torch.randn(1, max_len, d_model) * 0.02)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, 1)

    def encode(self, ids, pad):
        x = self.tok(ids) + self.pos[:, : ids.size(1)]
        return self.encoder(x)

    def forward(self, ids, pad):
        h = self.encode(ids, pad).masked_fill(pad.unsqueeze(-1), 0.0)
        n = (~pad).sum(1, keepdim=True)
        return self.head(h.sum(1) / n).squeeze(-1)


def toy_reviews(n, length, vocab):
    ids = torch.randint(1, vocab, (n, length))
    lens = torch.randint(3, length + 1, (n,))
    pad = torch.arange(length)[None] >= lens[:, None]
    ids[pad] = 0
    stars = (ids.float().sum(1) / lens) / vocab
    return ids, pad, stars


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--vocab", type=int, default=120)
    args = p.parse_args()
    torch.manual_seed(1)
    model = ReviewRegressor(args.vocab)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    ids, pad, stars = toy_reviews(16, 12, args.vocab)
    for i in range(args.steps):
        loss = (model(ids, pad) - stars).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print("mse", (model(ids, pad) - stars).pow(2).mean().item())


if __name__ == "__main__":
    main()
