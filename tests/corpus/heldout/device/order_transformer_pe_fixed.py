# target: script
# source: https://github.com/Lightning-AI/pytorch-lightning/issues/1978
# truth: none, the repaired twin of order_transformer_pe.py
import math

import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)

    def forward(self, x):
        return x + self.pe[:, :x.size(1)]


class SortNet(nn.Module):
    """Predicts for each token its rank within the sequence."""

    def __init__(self, vocab=20, d_model=32, n_out=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.pos = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, n_out)

    def forward(self, tokens):
        return self.head(self.encoder(self.pos(self.embed(tokens))))


def make_batch(batch_size, length, vocab, device):
    tokens = torch.stack([torch.randperm(vocab)[:length] for _ in range(batch_size)])
    ranks = tokens.argsort(1).argsort(1)
    return tokens.to(device), ranks.to(device)


def accuracy(model, tokens, ranks):
    with torch.no_grad():
        return (model(tokens).argmax(-1) == ranks).float().mean().item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = SortNet().to(device)
    optim = torch.optim.Adam(model.parameters(), lr=3e-3)
    for it in range(150):
        tokens, ranks = make_batch(64, 8, 20, device)
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ranks.flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()
        if it % 50 == 49:
            print(f"it {it + 1}: loss {loss.item():.3f} acc {accuracy(model, tokens, ranks):.3f}")


if __name__ == "__main__":
    main()
