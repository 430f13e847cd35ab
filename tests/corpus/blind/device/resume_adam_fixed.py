# target: script
# source: https://github.com/pytorch/pytorch/issues/2830
# truth: none, the repaired twin of resume_adam.py
import os
import tempfile
from dataclasses import asdict, dataclass

import torch
from torch import nn


@dataclass
class TrainConfig:
    hidden: int = 24
    lr: float = 1e-2
    window: int = 12
    batch: int = 32
    epochs: int = 2


def device():
    return torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.rnn = nn.LSTM(1, cfg.hidden, batch_first=True)
        self.out = nn.Linear(cfg.hidden, 1)

    def forward(self, x):
        y, _ = self.rnn(x.unsqueeze(-1))
        return self.out(y[:, -1]).squeeze(-1)


def series(n=600):
    t = torch.arange(n, dtype=torch.float32)
    return torch.sin(t / 7) + 0.4 * torch.sin(t / 3) + 0.05 * torch.randn(n)


def windows(s, w):
    x = s.unfold(0, w + 1, 1)
    return x[:, :-1], x[:, -1]


def save(path, model, opt, cfg, epoch):
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "cfg": asdict(cfg), "epoch": epoch}, path)


def start(cfg):
    model = Forecaster(cfg).to(device())
    return model, torch.optim.Adam(model.parameters(), lr=cfg.lr), 0


def resume(path):
    ckpt = torch.load(path, map_location="cpu")
    cfg = TrainConfig(**ckpt["cfg"])
    model = Forecaster(cfg).to(device())
    model.load_state_dict(ckpt["model"])
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    opt.load_state_dict(ckpt["opt"])
    return model, opt, ckpt["epoch"]


def fit(model, opt, cfg, data, first_epoch):
    x, y = (t.to(device()) for t in data)
    for epoch in range(first_epoch, first_epoch + cfg.epochs):
        total = 0.0
        for idx in torch.randperm(len(x), device=x.device).split(cfg.batch):
            loss = nn.functional.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        print(f"epoch {epoch} mse {total / len(x):.4f}")
    return first_epoch + cfg.epochs


if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = TrainConfig()
    data = windows(series(), cfg.window)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "last.pt")
        model, opt, epoch = start(cfg)
        epoch = fit(model, opt, cfg, data, epoch)
        save(path, model, opt, cfg, epoch)
        model, opt, epoch = resume(path)
        fit(model, opt, cfg, data, epoch)
