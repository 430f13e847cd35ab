# target: script
# truth: torch.load raises "_pickle.UnpicklingError: Weights only load failed ... Unsupported global: GLOBAL __main__.ModelConfig": the checkpoint holds a dataclass instance next to the weights, and since 2.6 torch.load defaults to weights_only=True.
"""Train the churn model, then reload the best checkpoint and export it as TorchScript."""
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn


@dataclass
class ModelConfig:
    n_features: int = 20
    hidden: int = 32
    dropout: float = 0.2
    threshold: float = 0.5


class ChurnModel(nn.Module):
    def __init__(self, cfg: ModelConfig):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(cfg.n_features, cfg.hidden),
            nn.BatchNorm1d(cfg.hidden),
            nn.ReLU(),
            nn.Dropout(cfg.dropout),
            nn.Linear(cfg.hidden, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).squeeze(1)


def save_checkpoint(path: Path, model: nn.Module, cfg: ModelConfig, epoch: int, val_loss: float) -> None:
    torch.save(
        {"config": cfg, "state_dict": model.state_dict(), "epoch": epoch, "val_loss": val_loss}, path
    )


def load_checkpoint(path: Path):
    ckpt = torch.load(path, map_location="cpu")  # error: DG805
    model = ChurnModel(ckpt["config"])
    model.load_state_dict(ckpt["state_dict"])
    return model.eval(), ckpt


def train(cfg: ModelConfig, ckpt_path: Path, epochs: int = 5) -> None:
    w = torch.randn(cfg.n_features)
    x_train, x_val = torch.randn(800, cfg.n_features), torch.randn(200, cfg.n_features)
    y_train, y_val = (x_train @ w > 0).float(), (x_val @ w > 0).float()
    model = ChurnModel(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss_fn = nn.BCEWithLogitsLoss()
    best = float("inf")
    for epoch in range(epochs):
        model.train()
        for idx in torch.randperm(len(x_train)).split(100):
            loss = loss_fn(model(x_train[idx]), y_train[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            val_loss = loss_fn(model(x_val), y_val).item()
        if val_loss < best:
            best = val_loss
            save_checkpoint(ckpt_path, model, cfg, epoch, val_loss)


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        ckpt_path = Path(tmp) / "best.pt"
        train(ModelConfig(), ckpt_path)
        model, ckpt = load_checkpoint(ckpt_path)
        print(f"best epoch {ckpt['epoch']}: val loss {ckpt['val_loss']:.4f}")
        traced = torch.jit.trace(model, torch.randn(4, ckpt["config"].n_features))
        traced.save(str(Path(tmp) / "churn.ts"))


if __name__ == "__main__":
    main()
