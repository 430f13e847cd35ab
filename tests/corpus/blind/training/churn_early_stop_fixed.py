# target: fit
"""Customer churn prediction with early stopping on the validation loss."""
from typing import Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Split = Tuple[torch.Tensor, torch.Tensor]


def churn_table(n: int = 300, n_features: int = 20, seed: int = 4) -> Tuple[Split, Split]:
    """Standardised customer features with noisy churn labels; train and validation split."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, n_features, generator=g)
    logit = x[:, 0] - 0.8 * x[:, 1] + 0.5 * x[:, 2] * x[:, 3]
    y = (torch.rand(n, generator=g) < torch.sigmoid(logit)).float()
    cut = int(0.6 * n)
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


def build_model(n_features: int, hidden: int = 64) -> nn.Module:
    return nn.Sequential(
        nn.Linear(n_features, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, 1), nn.Flatten(0),
    )


@torch.no_grad()
def validation_loss(model: nn.Module, split: Split) -> float:
    model.eval()
    x, y = split
    return F.binary_cross_entropy_with_logits(model(x), y).item()


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, split: Split, batch_size: int = 32) -> None:
    model.train()
    x, y = split
    for idx in torch.randperm(len(x)).split(batch_size):
        loss = F.binary_cross_entropy_with_logits(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def fit(max_epochs: int = 60, patience: int = 8, lr: float = 3e-3):
    """Train until the validation loss stops improving; returns the best model."""
    torch.manual_seed(0)
    train, val = churn_table()
    model = build_model(train[0].size(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    best_loss, best_state, bad_epochs = float("inf"), None, 0
    for epoch in range(max_epochs):
        train_epoch(model, optimizer, train)
        loss = validation_loss(model, val)
        if loss < best_loss:
            best_loss, bad_epochs = loss, 0
            best_state = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            bad_epochs += 1
            if bad_epochs >= patience:
                print(f"stopped after epoch {epoch}")
                break
    model.load_state_dict(best_state)
    return model, best_loss


if __name__ == "__main__":
    model, best = fit()
    print(f"best {best:.4f}, returned model {validation_loss(model, churn_table()[1]):.4f}")
