"""Truncated backpropagation, weight tying, packed sequences with a mask."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

device = "cuda" if torch.cuda.is_available() else "cpu"


def detach(h):
    return tuple(t.detach() for t in h) if isinstance(h, tuple) else h.detach()


class LM(nn.Module):
    def __init__(self, vocab=50, d=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, d, num_layers=2, dropout=0.1, batch_first=True)
        self.out = nn.Linear(d, vocab)
        self.out.weight = self.emb.weight

    def forward(self, x, h=None):
        y, h = self.rnn(self.emb(x), h)
        return self.out(y), h


def main():
    net = LM().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    h = None
    data = torch.randint(50, (4, 64), device=device)
    for i in range(0, 60, 10):
        x, y = data[:, i:i + 10], data[:, i + 1:i + 11]
        n = min(x.size(1), y.size(1))
        logits, h = net(x[:, :n], h)
        h = detach(h)
        loss = F.cross_entropy(logits.reshape(-1, 50), y[:, :n].reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()


def packed():
    seqs = [torch.randn(n, 8) for n in (5, 3, 2)]
    lengths = torch.tensor([len(s) for s in seqs])
    x = pad_sequence(seqs, batch_first=True).to(device)
    gru = nn.GRU(8, 8, batch_first=True, bidirectional=True).to(device)
    out, _ = gru(pack_padded_sequence(x, lengths, batch_first=True))
    out, lens = pad_packed_sequence(out, batch_first=True)
    mask = (torch.arange(out.size(1))[None] < lens[:, None]).to(device)
    pooled = (out * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    pooled.square().mean().backward()


if __name__ == "__main__":
    main()
    packed()
