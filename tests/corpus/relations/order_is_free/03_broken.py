import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=256):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class TrajectoryTransformer(nn.Module):
    """Classifies agent trajectories (batch, steps, 2)."""

    def __init__(self, d_model=32, nhead=4, classes=3):
        super().__init__()
        self.inp = nn.Linear(2, d_model)
        self.pos = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 64, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)
        self.cls = nn.Linear(d_model, classes)

    def forward(self, traj):
        h = self.pos(self.inp(traj))
        h = self.enc(h)
        return self.cls(h.mean(dim=1))


torch.manual_seed(0)
model = TrajectoryTransformer()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
steps = torch.randn(12, 15, 2)
target = torch.randint(0, 3, (12,))
trajectories = torch.cumsum(steps, dim=1)
for epoch in range(4):
    model.train()
    optimizer.zero_grad()
    loss = criterion(model(trajectories), target)
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
