"""Training configured by Hydra with dataclasses in the ConfigStore."""
from dataclasses import dataclass, field
from typing import Any

import hydra
import torch
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf
from torch import nn


@dataclass
class ModelConfig:
    n_in: int = 6
    hidden: int = 32
    dropout: float = 0.1


@dataclass
class OptimConfig:
    lr: float = 1e-2
    weight_decay: float = 1e-4


@dataclass
class TrainConfig:
    steps: int = 60
    batch_size: int = 64
    log_every: int = 20
    name: str = MISSING


@dataclass
class Config:
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=lambda: TrainConfig(name="demo"))
    seed: int = 0
    hydra: Any = field(
        default_factory=lambda: {"output_subdir": None, "run": {"dir": "${oc.env:TMPDIR,/tmp}/hydra_structured"}}
    )


ConfigStore.instance().store(name="config", node=Config)


def build_model(cfg: ModelConfig) -> nn.Module:
    return nn.Sequential(nn.Linear(cfg.n_in, cfg.hidden), nn.ReLU(), nn.Dropout(cfg.dropout), nn.Linear(cfg.hidden, 2))


def batch(n, dim, device):
    x = torch.randn(n, dim, device=device)
    return x, (x[:, 0] > x[:, 1]).long()


@hydra.main(version_base="1.3", config_path=None, config_name="config")
def main(cfg: Config) -> None:
    print(OmegaConf.to_yaml(cfg.optim).strip().replace("\n", ", "))
    torch.manual_seed(cfg.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build_model(cfg.model).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.optim.lr, weight_decay=cfg.optim.weight_decay)
    model.train()
    for step in range(cfg.train.steps):
        x, y = batch(cfg.train.batch_size, cfg.model.n_in, device)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % cfg.train.log_every == 0:
            print(f"{cfg.train.name} step {step}: {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        x, y = batch(400, cfg.model.n_in, device)
        print(f"accuracy {(model(x).argmax(1) == y).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
