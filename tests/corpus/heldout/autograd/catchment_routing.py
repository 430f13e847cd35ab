# target: main
# truth: route writes each hour's storage into a slice of one preallocated tensor whose earlier slices were saved for backward (product with the recession parameter); RuntimeError "modified by an inplace operation" at loss.backward().
"""Calibrate a linear store model of a catchment against gauged runoff."""
import torch
from torch import nn


class LinearStores(nn.Module):
    def __init__(self, stores=3):
        super().__init__()
        self.recession = nn.Parameter(torch.linspace(-1.0, 1.0, stores))
        self.split = nn.Parameter(torch.zeros(stores))

    def constants(self):
        return torch.sigmoid(self.recession), torch.softmax(self.split, dim=0)

    def route(self, rain):
        k, share = self.constants()
        basins, hours = rain.shape
        storage = rain.new_zeros(basins, hours + 1, len(k))
        flow = []
        for t in range(hours):
            release = k * storage[:, t]
            inflow = rain[:, t, None] * share
            storage[:, t + 1] = storage[:, t] - release + inflow  # error: DG101
            flow.append(release.sum(-1))
        return torch.stack(flow, dim=1)

    def forward(self, rain):
        return self.route(rain)


def synthetic_gauge(basins=4, hours=36, seed=0):
    g = torch.Generator().manual_seed(seed)
    rain = torch.relu(torch.randn(basins, hours, generator=g) - 0.5) * 4
    flow = torch.zeros(basins, hours)
    stores = torch.zeros(basins, 2)
    k = torch.tensor([0.6, 0.1])
    for t in range(hours):
        out = k * stores
        flow[:, t] = out.sum(1)
        stores = stores - out + rain[:, t, None] * 0.5
    return rain, flow


def nash_sutcliffe(simulated, observed):
    error = (simulated - observed).pow(2).sum()
    spread = (observed - observed.mean()).pow(2).sum()
    return 1 - error / spread


def main(steps=40):
    rain, observed = synthetic_gauge()
    model = LinearStores()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        simulated = model(rain)
        loss = 1 - nash_sutcliffe(simulated, observed)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d}  NSE {1 - loss.item():.4f}")


if __name__ == "__main__":
    main()
