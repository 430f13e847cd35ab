"""A dataclass turned into command line options by its fields, frozen after parsing."""
import argparse
import dataclasses
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Settings:
    dim: int = 16
    depth: int = 2
    lr: float = 3e-3
    steps: int = 80
    clip: float = 1.0
    activation: str = "gelu"

    def __post_init__(self):
        if self.depth < 1:
            raise ValueError("depth must be at least one")

    @classmethod
    def from_command_line(cls, argv=None) -> "Settings":
        parser = argparse.ArgumentParser()
        for f in dataclasses.fields(cls):
            parser.add_argument(f"--{f.name.replace('_', '-')}", type=type(f.default), default=f.default)
        return cls(**vars(parser.parse_args(argv)))


ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}


class Tower(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        layers = [nn.Linear(3, s.dim)]
        for _ in range(s.depth):
            layers += [ACTIVATIONS[s.activation](), nn.Linear(s.dim, s.dim)]
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(s.dim, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


def target_function(x):
    return x[:, 0].sin() + x[:, 1] * x[:, 2]


def train(s: Settings):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Tower(s).to(device)
    opt = torch.optim.NAdam(model.parameters(), lr=s.lr)
    for step in range(1, s.steps + 1):
        x = torch.randn(128, 3, device=device)
        loss = nn.functional.mse_loss(model(x), target_function(x))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), s.clip)
        opt.step()
        if step == 1 or step % 40 == 0:
            print(f"{step:4d} {loss.item():.4f}")
    return model


if __name__ == "__main__":
    settings = Settings.from_command_line()
    print(dataclasses.asdict(settings))
    train(dataclasses.replace(settings, steps=min(settings.steps, 500)))
