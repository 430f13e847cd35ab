# target: script
# truth: For drives above about 88 exp overflows to inf in the branch that where does not choose; the forward is right,
#   but its backward multiplies 0 by inf, the gradients and after one step all weights and losses are NaN.
"""Poisson regression of spike counts on stimulus features."""
import torch
from torch import nn

THRESHOLD = 20.0


def rectify(x):
    """Smooth positive rate: log(1 + e^x), the identity for large x."""
    return torch.where(x > THRESHOLD, x, torch.log1p(torch.exp(x)))  # error: DG406|DG410


class SpikeModel(nn.Module):
    def __init__(self, n_features, n_neurons, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_features, hidden), nn.ReLU())
        self.drive = nn.Linear(hidden, n_neurons)

    def forward(self, stimulus):
        return rectify(self.drive(self.body(stimulus)))


def poisson_nll(rate, count, eps=1e-6):
    return (rate - count * torch.log(rate + eps)).mean()


class Recording:
    """Simulated session: most trials at low contrast, a few at very high contrast."""

    def __init__(self, trials=400, n_features=6, n_neurons=5, seed=11):
        gen = torch.Generator().manual_seed(seed)
        contrast = torch.ones(trials, 1)
        contrast[::50] = 1000.0
        self.stimulus = contrast * torch.rand(trials, n_features, generator=gen)
        weights = torch.rand(n_features, n_neurons, generator=gen)
        self.count = torch.poisson(self.stimulus @ weights, generator=gen)

    def batches(self, size, gen):
        for index in torch.randperm(len(self.count), generator=gen).split(size):
            yield self.stimulus[index], self.count[index]


def fit(model, recording, device, epochs=10, size=40, lr=1e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    gen = torch.Generator().manual_seed(0)
    for epoch in range(epochs):
        losses = []
        for stimulus, count in recording.batches(size, gen):
            loss = poisson_nll(model(stimulus.to(device)), count.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch}: nll {torch.stack(losses).mean().item():.3f}")


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    recording = Recording()
    model = SpikeModel(recording.stimulus.size(1), recording.count.size(1)).to(device)
    fit(model, recording, device)


if __name__ == "__main__":
    main()
