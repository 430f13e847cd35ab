# target: train
# source: https://github.com/astariul/encode-attend-navigate-pytorch/issues/2
# truth: the advantage used to weight the log-probabilities still carries the critic's graph, so the
#   policy loss also backpropagates into the critic (its gradient is not the value-regression gradient)
#   and the value estimates drift away from the mean tour length; no error is raised.
from dataclasses import dataclass
from typing import Dict, Tuple

import torch
from torch import Tensor, nn
import torch.nn.functional as F


@dataclass
class Config:
    n_cities: int = 6
    dim: int = 32
    batch: int = 64
    steps: int = 120
    lr: float = 2e-3
    seed: int = 11


class Encoder(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.inp = nn.Linear(2, dim)
        self.layer = nn.TransformerEncoderLayer(dim, 2, dim * 2, dropout=0.0, batch_first=True)

    def forward(self, xy: Tensor) -> Tensor:
        return self.layer(self.inp(xy))


class Router(nn.Module):
    """Autoregressive pointer decoder: returns a tour and its log probability."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.enc = Encoder(dim)
        self.q = nn.Linear(dim, dim)

    def forward(self, xy: Tensor) -> Tuple[Tensor, Tensor]:
        h = self.enc(xy)
        b, n, _ = h.shape
        visited = torch.zeros(b, n, dtype=torch.bool)
        cur, tour, logp = h.mean(1), [], xy.new_zeros(b)
        for _ in range(n):
            score = torch.einsum("bd,bnd->bn", self.q(cur), h) / h.size(-1) ** 0.5
            dist = torch.distributions.Categorical(logits=score.masked_fill(visited, float("-inf")))
            pick = dist.sample()
            logp = logp + dist.log_prob(pick)
            visited = visited.scatter(1, pick[:, None], True)
            cur = h[torch.arange(b), pick]
            tour.append(pick)
        return torch.stack(tour, 1), logp


class Critic(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.enc = Encoder(dim)
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, xy: Tensor) -> Tensor:
        return self.head(self.enc(xy).mean(1)).squeeze(-1)


def tour_length(xy: Tensor, tour: Tensor) -> Tensor:
    pts = xy.gather(1, tour[..., None].expand(-1, -1, 2))
    return (pts - pts.roll(-1, 1)).norm(dim=-1).sum(1)


def losses(length: Tensor, value: Tensor, logp: Tensor) -> Dict[str, Tensor]:
    advantage = length - value  # error: DG120
    return {"policy": (advantage * logp).mean(), "critic": F.mse_loss(value, length)}


def train(cfg: Config = Config()) -> Dict[str, float]:
    torch.manual_seed(cfg.seed)
    router, critic = Router(cfg.dim), Critic(cfg.dim)
    opt = torch.optim.Adam([*router.parameters(), *critic.parameters()], lr=cfg.lr)
    stats: Dict[str, float] = {}
    for step in range(cfg.steps):
        xy = torch.rand(cfg.batch, cfg.n_cities, 2)
        tour, logp = router(xy)
        length, value = tour_length(xy, tour), critic(xy)
        parts = losses(length, value, logp)
        opt.zero_grad()
        sum(parts.values()).backward()
        opt.step()
        stats = {"length": length.mean().item(), "value": value.mean().item(), "critic": parts["critic"].item()}
        if step % 30 == 0:
            print(step, {k: round(v, 3) for k, v in stats.items()})
    return stats


if __name__ == "__main__":
    print("final", train())
