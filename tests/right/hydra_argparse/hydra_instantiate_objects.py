"""Hydra's instantiate builds the network, the optimizer as a partial and the schedule from plain config."""
from typing import Any, Dict

import hydra
import torch
from hydra.core.config_store import ConfigStore
from hydra.utils import instantiate
from omegaconf import DictConfig

CONFIG: Dict[str, Any] = {
    "seed": 3,
    "epochs": 4,
    "net": {
        "_target_": "torch.nn.Sequential",
        "_args_": [
            {"_target_": "torch.nn.Linear", "in_features": 4, "out_features": 16},
            {"_target_": "torch.nn.SiLU"},
            {"_target_": "torch.nn.Linear", "in_features": 16, "out_features": 1},
        ],
    },
    "loss": {"_target_": "torch.nn.HuberLoss", "delta": 0.5},
    "optimizer": {"_target_": "torch.optim.Adam", "_partial_": True, "lr": 0.01},
    "scheduler": {"_target_": "torch.optim.lr_scheduler.ExponentialLR", "_partial_": True, "gamma": 0.8},
    "hydra": {"output_subdir": None, "run": {"dir": "${oc.env:TMPDIR,/tmp}/hydra_instantiate"}},
}
ConfigStore.instance().store(name="main", node=CONFIG)


def data(seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(256, 4, generator=g)
    return torch.utils.data.TensorDataset(x, x.square().mean(dim=1, keepdim=True))


@hydra.main(version_base="1.3", config_path=None, config_name="main")
def run(cfg: DictConfig) -> float:
    torch.manual_seed(cfg.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net: torch.nn.Module = instantiate(cfg.net).to(device)
    criterion = instantiate(cfg.loss)
    optimizer = instantiate(cfg.optimizer)(net.parameters())
    scheduler = instantiate(cfg.scheduler)(optimizer)
    loader = torch.utils.data.DataLoader(data(cfg.seed), batch_size=32, shuffle=True)
    mean = float("nan")
    for epoch in range(cfg.epochs):
        total = torch.zeros((), device=device)
        for x, y in loader:
            loss = criterion(net(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * x.size(0)
        scheduler.step()
        mean = total.item() / len(loader.dataset)
        print(f"epoch {epoch}: {mean:.4f}, lr {scheduler.get_last_lr()[0]:.5f}")
    return mean


if __name__ == "__main__":
    run()
