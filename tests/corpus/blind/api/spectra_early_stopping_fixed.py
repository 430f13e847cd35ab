# target: script
"""Denoising autoencoder for spectra with early stopping."""
import copy
import math

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def spectra(n: int, seed: int, bins: int = 96) -> TensorDataset:
    """Sums of three Gaussian lines; returns (noisy, clean) pairs."""
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 1, bins)
    center = torch.rand(n, 3, 1, generator=g)
    height = torch.rand(n, 3, 1, generator=g)
    clean = (height * torch.exp(-((grid - center) / 0.04) ** 2)).sum(dim=1)
    return TensorDataset(clean + 0.3 * torch.randn(n, bins, generator=g), clean)


class DenoisingAE(nn.Module):
    def __init__(self, bins: int = 96, hidden: int = 256, code: int = 32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(bins, hidden), nn.ReLU(), nn.Linear(hidden, code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, bins))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class EarlyStopping:
    """Tracks the best validation loss and the weights that reached it."""

    def __init__(self, patience: int = 8):
        self.patience = patience
        self.best = math.inf
        self.best_state = None
        self.bad_epochs = 0

    def update(self, loss: float, model: nn.Module) -> bool:
        """Returns True when training should stop."""
        if loss < self.best:
            self.best, self.bad_epochs = loss, 0
            self.best_state = copy.deepcopy(model.state_dict())
        else:
            self.bad_epochs += 1
        return self.bad_epochs >= self.patience

    def restore(self, model: nn.Module) -> None:
        if self.best_state is not None:
            model.load_state_dict(self.best_state)


@torch.no_grad()
def validate(model, loader) -> float:
    model.eval()
    total = sum(F.mse_loss(model(x), y, reduction="sum").item() for x, y in loader)
    return total / len(loader.dataset)


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(spectra(256, seed=1), batch_size=32, shuffle=True)
    val_loader = DataLoader(spectra(256, seed=2), batch_size=256)
    model = DenoisingAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    stopper = EarlyStopping()
    for epoch in range(60):
        model.train()
        for x, y in train_loader:
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if stopper.update(validate(model, val_loader), model):
            break
    stopper.restore(model)
    print(f"stopped after epoch {epoch}: best {stopper.best:.4f}, restored {validate(model, val_loader):.4f}")


if __name__ == "__main__":
    main()
