"""Early stopping that remembers the best weights and puts them back."""
import copy

import torch
import torch.nn as nn


class EarlyStopper:
    """Watches a validation loss; `step` answers True when training should stop."""

    def __init__(self, patience=5, min_delta=1e-3):
        self.patience = patience
        self.min_delta = min_delta
        self.best = float("inf")
        self.bad_epochs = 0
        self.best_state = None

    def step(self, value, model):
        if value < self.best - self.min_delta:
            self.best = value
            self.bad_epochs = 0
            self.best_state = copy.deepcopy(model.state_dict())
        else:
            self.bad_epochs += 1
        return self.bad_epochs >= self.patience

    def restore(self, model):
        if self.best_state is not None:
            model.load_state_dict(self.best_state)


def split_data(n_train=40, n_val=200, dim=20, seed=5):
    g = torch.Generator().manual_seed(seed)
    w = torch.zeros(dim, 1)
    w[:3] = torch.tensor([[1.0], [-2.0], [0.5]])
    x = torch.randn(n_train + n_val, dim, generator=g)
    y = x @ w + 0.5 * torch.randn(n_train + n_val, 1, generator=g)
    return (x[:n_train], y[:n_train]), (x[n_train:], y[n_train:])


def validate(model, x, y, criterion):
    was_training = model.training
    model.eval()
    with torch.no_grad():
        value = criterion(model(x), y).item()
    model.train(was_training)
    return value


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    (xt, yt), (xv, yv) = split_data()
    xt, yt, xv, yv = (t.to(device) for t in (xt, yt, xv, yv))
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1)).to(device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    stopper = EarlyStopper(patience=8)
    for epoch in range(200):
        optimizer.zero_grad()
        loss = criterion(model(xt), yt)
        loss.backward()
        optimizer.step()
        if stopper.step(validate(model, xv, yv, criterion), model):
            print(f"stopped after epoch {epoch + 1}")
            break
    stopper.restore(model)
    print(f"best validation mse {stopper.best:.3f}, restored {validate(model, xv, yv, criterion):.3f}")


if __name__ == "__main__":
    main()
