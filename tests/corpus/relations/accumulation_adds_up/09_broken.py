import torch
from torch import nn, optim
from torch.nn import functional as F


class SiameseGRU(nn.Module):
    """Similarity of two token sequences."""

    def __init__(self, vocab=50, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)

    def encode(self, ids):
        _, h = self.gru(self.embed(ids))
        return F.normalize(h[-1], dim=-1)

    def forward(self, a, b):
        return (self.encode(a) * self.encode(b)).sum(-1)


def pairs(n, length=9, vocab=50):
    a = torch.randint(0, vocab, (n, length))
    same = torch.rand(n) < 0.5
    b = torch.where(same[:, None], a.roll(1, dims=1), torch.randint(0, vocab, (n, length)))
    return a, b, same.float() * 2 - 1


def train(model, optimizer, data, micro=8, group=4):
    a, b, y = data
    log = []
    optimizer.zero_grad()
    batches = zip(a.split(micro), b.split(micro), y.split(micro))
    for i, (xa, xb, t) in enumerate(batches):
        loss = F.mse_loss(model(xa, xb), t)
        (loss / group).backward()
        log.append(loss.item())
        if i % group == 0:
            optimizer.step()
            optimizer.zero_grad()
    return log


torch.manual_seed(0)
model = SiameseGRU()
optimizer = optim.RMSprop(model.parameters(), lr=1e-3)
for epoch in range(3):
    log = train(model, optimizer, pairs(96))
    print(f"epoch {epoch}: {sum(log) / len(log):.4f}")
