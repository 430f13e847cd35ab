# target: fit
# truth: wet_term evaluates log(rain) for dry days (rain = 0) and masks afterwards with torch.where; forward is finite, but the gradients of gain and raw_shape are NaN (0 * inf) and the model is NaN after the first step.
"""Daily rain as a mixture of dry days and a gamma law, with a gauge correction."""
import torch
from torch import nn
from torch.nn.functional import softplus


class RainModel(nn.Module):
    def __init__(self, stations):
        super().__init__()
        self.wet_logit = nn.Parameter(torch.zeros(stations))
        self.raw_shape = nn.Parameter(torch.zeros(stations))
        self.raw_rate = nn.Parameter(torch.zeros(stations))
        self.gain = nn.Parameter(torch.zeros(stations))

    def correct(self, rain):
        """Gauges lose some rain to the wind; gain is regularised to zero."""
        return rain * self.gain.exp()

    def wet_term(self, rain, wet):
        shape, rate = softplus(self.raw_shape) + 1e-3, softplus(self.raw_rate) + 1e-3
        amount = self.correct(rain)
        density = shape * rate.log() - torch.lgamma(shape) + (shape - 1) * amount.log() - rate * amount  # error: DG406
        return torch.where(wet, density + self.gain, torch.zeros_like(density))

    def log_prob(self, rain):
        wet = rain > 0
        occurrence = torch.where(
            wet, -softplus(-self.wet_logit), -softplus(self.wet_logit)
        )
        return occurrence + self.wet_term(rain, wet)

    def forward(self, rain):
        prior = 5.0 * self.gain.square().mean()
        return -self.log_prob(rain).mean() + prior


def observe(days, stations, seed):
    torch.manual_seed(seed)
    wet = torch.rand(days, stations) < torch.linspace(0.2, 0.5, stations)
    amount = torch.distributions.Gamma(0.8, 0.2).sample((days, stations))
    return amount * wet


def report(model):
    with torch.no_grad():
        chance = torch.sigmoid(model.wet_logit)
        mean = (softplus(model.raw_shape) + 1e-3) / (softplus(model.raw_rate) + 1e-3)
    for i, (p, m) in enumerate(zip(chance.tolist(), mean.tolist())):
        print(f"station {i}: wet {p:.2f}, mean of wet days {m:.2f} mm")


def fit(steps=200, stations=5):
    rain = observe(400, stations, seed=0)
    model = RainModel(stations)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(rain)
        loss.backward()
        optimizer.step()
    report(model)
    return loss.item()


if __name__ == "__main__":
    print(fit())
