# target: Experiment.run
# truth: epochs() draws one permutation for the inputs and another for the targets, so rows and labels no longer belong together; silent, the model learns only the mean (R2 about 0).
"""Soil moisture from radar backscatter and weather."""
import torch
from torch import nn


def simulate(n=800, seed=0):
    g = torch.Generator().manual_seed(seed)
    moisture = 0.05 + 0.4 * torch.rand(n, generator=g)
    vegetation = torch.rand(n, generator=g)
    angle = 30 + 10 * torch.rand(n, generator=g)
    vv = -15 + 25 * moisture - 3 * vegetation - 0.1 * (angle - 35) + 0.3 * torch.randn(n, generator=g)
    vh = -22 + 12 * moisture + 4 * vegetation + 0.3 * torch.randn(n, generator=g)
    rain = torch.relu(20 * (moisture - 0.2)) + torch.rand(n, generator=g)
    return torch.stack([vv, vh, vegetation, angle, rain], dim=1), moisture


class Standardiser:
    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0).clamp_min(1e-6)
        return self

    def __call__(self, x):
        return (x - self.mean) / self.std

    def inverse(self, x):
        return x * self.std + self.mean


class Table:
    def __init__(self, x, y, batch):
        self.x, self.y, self.batch = x, y, batch

    def shuffled(self, column):
        return column[torch.randperm(len(column))]

    def epochs(self, count):
        for _ in range(count):
            x, y = self.shuffled(self.x), self.shuffled(self.y)  # fault: no rule
            yield zip(x.split(self.batch), y.split(self.batch))


class Experiment:
    def __init__(self, seed=0, lr=5e-3):
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=lr)
        x, y = simulate()
        self.scale_x, self.scale_y = Standardiser().fit(x), Standardiser().fit(y)
        self.table = Table(self.scale_x(x), self.scale_y(y), batch=64)

    def predict(self, x):
        return self.scale_y.inverse(self.net(self.scale_x(x)).squeeze(1))

    @torch.no_grad()
    def r2(self, seed=1):
        x, y = simulate(300, seed)
        return (1 - (self.predict(x) - y).square().mean() / y.var()).item()

    def run(self, epochs=12):
        for batches in self.table.epochs(epochs):
            for x, y in batches:
                loss = nn.functional.mse_loss(self.net(x).squeeze(1), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return loss.item(), self.r2()


if __name__ == "__main__":
    print("loss %.3f R2 %.3f" % Experiment().run())
