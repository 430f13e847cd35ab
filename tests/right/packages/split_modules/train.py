"""The training loop of the factorization."""
import torch
from torch import nn


def to_device(batch, device):
    return [t.to(device) for t in batch]


def train_epoch(model, loader, optimizer, device):
    model.train()
    total = torch.zeros((), device=device)
    for batch in loader:
        u, i, r = to_device(batch, device)
        loss = nn.functional.mse_loss(model(u, i), r)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * r.numel()
    return (total / len(loader.dataset)).sqrt().item()


@torch.inference_mode()
def test_rmse(model, loader, device):
    model.eval()
    total = torch.zeros((), device=device)
    for batch in loader:
        u, i, r = to_device(batch, device)
        total += (model(u, i) - r).square().sum()
    return (total / len(loader.dataset)).sqrt().item()
