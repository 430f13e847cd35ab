# target: run_epoch
# truth: pack_padded_sequence gets lengths in the order of the batch while enforce_sorted is left True; RuntimeError at the first batch whose stays are not in decreasing order of length.
"""Mortality risk from hourly vital signs, stays of different lengths."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class StayDataset(Dataset):
    def __init__(self, count=96, signals=7, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.stays = []
        for _ in range(count):
            hours = int(torch.randint(4, 48, (1,), generator=g))
            series = torch.randn(hours, signals, generator=g)
            risk = torch.rand(1, generator=g).item() < 0.3
            if risk:
                series[:, 0] += torch.linspace(0, 2, hours)
            self.stays.append((series, float(risk)))

    def __len__(self):
        return len(self.stays)

    def __getitem__(self, i):
        return self.stays[i]


def collate(batch):
    series, risk = zip(*batch)
    lengths = torch.tensor([len(s) for s in series])
    return pad_sequence(series, batch_first=True), lengths, torch.tensor(risk)


class RiskModel(nn.Module):
    def __init__(self, signals=7, hidden=24):
        super().__init__()
        self.inputs = nn.Sequential(nn.Linear(signals, hidden), nn.ReLU())
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def summarise(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)  # error: DG907
        _, last = self.gru(packed)
        return last[-1]

    def forward(self, x, lengths):
        return self.head(self.summarise(self.inputs(x), lengths)).squeeze(-1)


def run_epoch(model=None, loader=None, optimizer=None):
    torch.manual_seed(3)
    if model is None:
        model = RiskModel()
    if loader is None:
        loader = DataLoader(StayDataset(), batch_size=16, shuffle=True, collate_fn=collate)
    if optimizer is None:
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    total = 0.0
    for x, lengths, risk in loader:
        optimizer.zero_grad()
        loss = criterion(model(x, lengths), risk)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(risk)
    return total / len(loader.dataset)
