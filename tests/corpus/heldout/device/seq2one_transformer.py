# target: train
# truth: The positional table is a plain attribute, not a buffer, so model.to("cuda") leaves it on the CPU; on a GPU machine the
#   first forward raises "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu".
"""Transformer encoder for forecasting the next value of a multivariate series."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SinusoidalEncoding(nn.Module):
    def __init__(self, d_model, max_len=512, dropout=0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        pos = torch.arange(max_len).unsqueeze(1)
        freq = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(pos * freq)
        pe[0, :, 1::2] = torch.cos(pos * freq)
        self.pe = pe  # error: DG204|DG205

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class Forecaster(nn.Module):
    def __init__(self, n_vars, d_model=32, nhead=4, depth=2):
        super().__init__()
        self.inp = nn.Linear(n_vars, d_model)
        self.pos = SinusoidalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 4 * d_model, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(d_model, n_vars)

    def forward(self, x):
        h = self.encoder(self.pos(self.inp(x)))
        return self.head(h[:, -1])


def make_windows(series, length):
    xs = series.unfold(0, length + 1, 1).transpose(1, 2)
    return TensorDataset(xs[:, :-1], xs[:, -1])


def train(series, epochs=2, window=24, device=None):
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(make_windows(series, window), batch_size=32, shuffle=True)
    model = Forecaster(series.size(1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    for _ in range(epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
    return model
