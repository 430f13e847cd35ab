# target: train
"""Denoise spectra with a residual MLP and Gaussian statistics of its weights."""
import torch
from torch import nn
from torch.func import functional_call


class SpectrumNet(nn.Module):
    def __init__(self, bins=256, width=256, depth=2):
        super().__init__()
        self.inp = nn.Linear(bins, width)
        self.mid = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.out = nn.Linear(width, bins)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        for layer in self.mid:
            h = h + torch.relu(layer(h))
        return x + self.out(h)


class WeightStatistics:
    """Running mean and variance of each weight over the last part of the training."""

    def __init__(self, model, rate=0.97):
        self.rate = rate
        self.mean = {k: v.detach().clone() for k, v in model.named_parameters()}
        self.var = {k: torch.zeros_like(v) for k, v in self.mean.items()}

    def track(self, model):
        gain = 1 - self.rate
        for name, value in model.named_parameters():
            delta = value.detach() - self.mean[name]
            self.mean[name] = self.mean[name] + gain * delta
            self.var[name] = self.rate * (self.var[name] + gain * delta**2)

    @torch.no_grad()
    def draw(self, scale=0.5):
        return {k: m + scale * self.var[k].sqrt() * torch.randn_like(m) for k, m in self.mean.items()}


def spectra(batch, bins, generator):
    axis = torch.linspace(0, 1, bins)
    centre = torch.rand(batch, 3, 1, generator=generator)
    clean = torch.exp(-((axis - centre) / 0.03) ** 2).sum(1)
    return clean + 0.2 * torch.randn(batch, bins, generator=generator), clean


@torch.no_grad()
def evaluate(model, statistics, generator, draws=4):
    noisy, clean = spectra(128, 256, generator)
    guesses = [functional_call(model, statistics.draw(), (noisy,)) for _ in range(draws)]
    guess = torch.stack(guesses)
    return (guess.mean(0) - clean).square().mean().item(), guess.std(0).mean().item()


def train(steps=120):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    model = SpectrumNet()
    statistics = WeightStatistics(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        noisy, clean = spectra(64, 256, g)
        loss = (model(noisy) - clean).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= 10:
            statistics.track(model)
    return loss.item(), *evaluate(model, statistics, g)


if __name__ == "__main__":
    print(train())
