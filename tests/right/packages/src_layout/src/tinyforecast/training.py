"""Fitting and evaluation."""
import torch
from torch import nn
from torch.utils.data import DataLoader


def fit(model: nn.Module, loader: DataLoader, epochs: int, lr: float = 1e-2) -> list:
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    criterion = nn.MSELoss()
    history = []
    model.train()
    for _ in range(epochs):
        total = torch.zeros((), device=device)
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach() * len(x)
        history.append(total.item() / len(loader.dataset))
    return history


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> float:
    device = next(model.parameters()).device
    model.eval()
    total = torch.zeros((), device=device)
    for x, y in loader:
        total += nn.functional.mse_loss(model(x.to(device)), y.to(device), reduction="sum")
    return total.item() / len(loader.dataset)
