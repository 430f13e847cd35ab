import numpy as np
import torch
from torch import nn


class LightCurveModel(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.lift = nn.Linear(2, dim)
        self.attn = nn.MultiheadAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.period = nn.Linear(dim, 1)

    def forward(self, curve):
        # curve: (stars, observations, [time, flux])
        h = self.lift(curve)
        a, _ = self.attn(h, h, h, need_weights=False)
        h = self.norm(h + a)
        return self.period(h.mean(dim=1)).squeeze(-1)


def synthetic_curves(n, t, rng):
    time = np.sort(rng.uniform(0, 10, size=(n, t)), axis=1)
    period = rng.uniform(0.5, 5.0, size=(n, 1))
    flux = np.sin(2 * np.pi * time / period) + 0.05 * rng.normal(size=(n, t))
    x = np.stack([time, flux], axis=-1).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(np.log(period[:, 0]).astype(np.float32))


rng = np.random.default_rng(5)
torch.manual_seed(5)
x_train, y_train = synthetic_curves(32, 20, rng)
x_test, y_test = synthetic_curves(8, 20, rng)
net = LightCurveModel()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(5):
    net.train()
    loss = nn.functional.mse_loss(net(x_train), y_train)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    test = nn.functional.mse_loss(net(x_test), y_test)
print(f"train {loss.item():.3f} test {test.item():.3f}")
