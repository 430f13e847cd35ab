# target: train
# truth: The mixture likelihood is summed as exp(log_prob) and then logged, so it underflows to log(0) for targets far from all components; the loss becomes inf, the parameters NaN, and the next Normal(...) raises ValueError about invalid values.
"""Mixture density network for wind power ramps (heavy-tailed targets)."""
import torch
from torch import nn
from torch.distributions import Normal


class MDN(nn.Module):
    def __init__(self, n_features: int = 6, hidden: int = 32, n_components: int = 5):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_features, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.logits = nn.Linear(hidden, n_components)
        self.mu = nn.Linear(hidden, n_components)
        self.log_sigma = nn.Linear(hidden, n_components)

    def forward(self, x):
        h = self.trunk(x)
        sigma = self.log_sigma(h).clamp(-3, 3).exp()
        return self.logits(h).log_softmax(dim=-1), self.mu(h), sigma


def mdn_nll(log_pi, mu, sigma, y):
    """Negative log-likelihood of y (B,) under the predicted mixtures (B, K)."""
    log_prob = Normal(mu, sigma).log_prob(y.unsqueeze(-1))
    return -torch.log(torch.exp(log_pi + log_prob).sum(dim=-1)).mean()  # error: DG414


def wind_data(n: int = 512, n_features: int = 6):
    """Standardised features and ramps; a few ramps are storms."""
    x = torch.randn(n, n_features)
    y = torch.sin(x[:, 0]) + 0.3 * x[:, 1] + 0.2 * torch.randn(n)
    storms = torch.randperm(n)[: n // 50]
    y[storms] += 25.0 * torch.sign(torch.randn(len(storms)))
    return x, y


def train(epochs: int = 20, batch_size: int = 64, lr: float = 1e-3):
    torch.manual_seed(42)
    x, y = wind_data()
    model = MDN(x.size(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    history = []
    for _ in range(epochs):
        order = torch.randperm(len(x))
        total = 0.0
        for idx in order.split(batch_size):
            loss = mdn_nll(*model(x[idx]), y[idx])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item() * len(idx)
        history.append(total / len(x))
    return model, history


if __name__ == "__main__":
    print(train()[1][-1])
