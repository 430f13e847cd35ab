"""A batch sampler that puts sequences of like length together and shuffles the order of batches."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler


class BucketBatchSampler(Sampler):
    def __init__(self, lengths, batch_size, pool=8, seed=0):
        self.lengths, self.batch_size, self.pool = lengths, batch_size, pool
        self.rng = random.Random(seed)

    def __len__(self):
        return (len(self.lengths) + self.batch_size - 1) // self.batch_size

    def __iter__(self):
        order = list(range(len(self.lengths)))
        self.rng.shuffle(order)
        batches = []
        span = self.batch_size * self.pool
        for i in range(0, len(order), span):
            chunk = sorted(order[i : i + span], key=self.lengths.__getitem__)
            batches += [chunk[j : j + self.batch_size] for j in range(0, len(chunk), self.batch_size)]
        self.rng.shuffle(batches)
        yield from batches


class Sequences(Dataset):
    def __init__(self, n=200, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.items = [torch.randn(int(k), generator=g) for k in torch.randint(1, 40, (n,), generator=g)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    lengths = torch.tensor([len(t) for t in items])
    return pad_sequence(items, batch_first=True), lengths, torch.stack([t.max() for t in items])


def padding_share(loader):
    padded = real = 0
    for x, lengths, _ in loader:
        padded += x.numel()
        real += int(lengths.sum())
    return 1 - real / padded


class MaxNet(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.lift, self.out = nn.Linear(1, dim), nn.Linear(dim, 1)

    def forward(self, x, lengths):
        h = self.lift(x.unsqueeze(-1))
        pad = torch.arange(x.size(1), device=x.device) >= lengths.unsqueeze(1)
        return self.out(h.masked_fill(pad.unsqueeze(-1), float("-inf")).amax(dim=1)).squeeze(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Sequences()
    plain = DataLoader(data, batch_size=16, collate_fn=collate)
    bucketed = DataLoader(data, batch_sampler=BucketBatchSampler([len(t) for t in data.items], 16), collate_fn=collate)
    assert len(plain) == len(bucketed)
    print(f"padding {padding_share(plain):.2f} -> {padding_share(bucketed):.2f}")
    net = MaxNet().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=2e-2)
    for epoch in range(4):
        total = torch.zeros((), device=device)
        for x, lengths, y in bucketed:
            x, lengths, y = x.to(device), lengths.to(device), y.to(device)
            loss = nn.functional.mse_loss(net(x, lengths), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach() * len(y)
        print(f"epoch {epoch}: {total.item() / len(data):.4f}")
