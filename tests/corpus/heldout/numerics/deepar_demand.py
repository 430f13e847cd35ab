# target: DemandTrainer.train_epoch
# truth: A series with no demand in its history has scale 0, so history / scale is 0/0 = NaN; the LSTM's output and the
#   loss of any batch with such a series are NaN, the gradient clip passes NaN on and all weights become NaN.
"""DeepAR-style probabilistic forecaster for retail demand with per-series mean scaling."""
from typing import Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MeanScaler(nn.Module):
    """Divides every series by the mean absolute value of its observed history."""

    def forward(self, history: Tensor, observed: Tensor) -> Tuple[Tensor, Tensor]:
        total = (history.abs() * observed).sum(dim=1, keepdim=True)
        count = observed.sum(dim=1, keepdim=True).clamp(min=1.0)
        scale = total / count  # error: DG402|DG410
        return history / scale, scale


class DeepAR(nn.Module):
    def __init__(self, n_covariates: int, n_series: int, hidden: int = 40, layers: int = 2):
        super().__init__()
        self.scaler = MeanScaler()
        self.series = nn.Embedding(n_series, 8)
        self.rnn = nn.LSTM(1 + n_covariates + 8, hidden, layers, batch_first=True, dropout=0.1)
        self.mu = nn.Linear(hidden, 1)
        self.alpha = nn.Linear(hidden, 1)

    def forward(self, target: Tensor, observed: Tensor, covariates: Tensor, series: Tensor):
        """Negative binomial mean and dispersion for steps 1..T-1 given the steps before each."""
        scaled, scale = self.scaler(target[:, :-1], observed[:, :-1])
        emb = self.series(series).unsqueeze(1).expand(-1, scaled.shape[1], -1)
        out, _ = self.rnn(torch.cat([scaled.unsqueeze(-1), covariates[:, 1:], emb], dim=-1))
        mean = F.softplus(self.mu(out)).squeeze(-1) * scale + 1e-4
        dispersion = F.softplus(self.alpha(out)).squeeze(-1) + 1e-4
        return mean, dispersion


def negative_binomial_nll(y: Tensor, mean: Tensor, alpha: Tensor) -> Tensor:
    r = 1.0 / alpha
    log_p = torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1.0)
    log_p = log_p - r * torch.log1p(alpha * mean)
    log_p = log_p + y * (torch.log(alpha * mean) - torch.log1p(alpha * mean))
    return -log_p


class DemandTrainer:
    def __init__(self, model: DeepAR, device: torch.device, lr: float = 1e-3):
        self.model, self.device = model.to(device), device
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def loss(self, target: Tensor, observed: Tensor, covariates: Tensor, series: Tensor) -> Tensor:
        mean, alpha = self.model(target, observed, covariates, series)
        weight = observed[:, 1:]
        nll = negative_binomial_nll(target[:, 1:], mean, alpha)
        return (nll * weight).sum() / weight.sum().clamp(min=1.0)

    def train_epoch(self, loader) -> float:
        """Batches are (demand counts, observed mask, covariates, series id); unobserved counts are 0."""
        self.model.train()
        total = torch.zeros((), device=self.device)
        for batch in loader:
            loss = self.loss(*(x.to(self.device) for x in batch))
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
            self.optimizer.step()
            total += loss.detach()
        return total.item() / len(loader)
