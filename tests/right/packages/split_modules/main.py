"""A recommender in flat files: config, data, model, train."""
import torch

from config import Config
from data import loaders
from model import Factorization
from train import test_rmse, train_epoch


def training_mean(loader):
    total, n = 0.0, 0
    for _, _, r in loader:
        total += r.sum().item()
        n += r.numel()
    return total / max(1, n)


def main():
    torch.manual_seed(0)
    cfg = Config()
    train_loader, test_loader = loaders(cfg)
    model = Factorization(cfg, mean=training_mean(train_loader)).to(cfg.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-2)
    for epoch in range(cfg.epochs):
        rmse = train_epoch(model, train_loader, optimizer, cfg.device)
        if epoch % 6 == 5:
            print(f"epoch {epoch}: train rmse {rmse:.3f}, test rmse {test_rmse(model, test_loader, cfg.device):.3f}")


if __name__ == "__main__":
    main()
