# target: DDIMSampler.sample
# truth: make_generator ignores its device argument and always builds a CPU generator; with device='cuda'
#   torch.randn(..., device=cuda, generator=cpu_generator) in initial_noise raises "RuntimeError: Expected a 'cuda'
#   device type for generator but found 'cpu'". On CPU it works.
"""DDIM sampling for a trained noise predictor, with reproducible starting noise."""
from dataclasses import dataclass
from typing import Tuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class SamplerConfig:
    train_steps: int = 1000
    sample_steps: int = 50
    beta_start: float = 1e-4
    beta_end: float = 2e-2
    eta: float = 0.0


def make_generator(seed: int, device: torch.device) -> torch.Generator:
    return torch.Generator().manual_seed(seed)  # error: DG205


def alphas_cumprod(cfg: SamplerConfig, device: torch.device) -> Tensor:
    betas = torch.linspace(cfg.beta_start, cfg.beta_end, cfg.train_steps, dtype=torch.float64)
    return torch.cumprod(1.0 - betas, dim=0).float().to(device)


class DDIMSampler:
    """
    >>> net = lambda x, t: torch.zeros_like(x)
    >>> DDIMSampler(net, SamplerConfig(sample_steps=4), torch.device("cpu")).sample(2, (3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    """

    def __init__(self, model: nn.Module, cfg: SamplerConfig, device: torch.device):
        self.model, self.cfg, self.device = model, cfg, device
        self.a_bar = alphas_cumprod(cfg, device)

    def timesteps(self):
        stride = self.cfg.train_steps // self.cfg.sample_steps
        return list(range(self.cfg.train_steps - 1, -1, -stride))

    def initial_noise(self, n: int, shape: Tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn((n, *shape), device=self.device, generator=generator)

    def step(self, x: Tensor, t: int, t_prev: int, generator: torch.Generator) -> Tensor:
        a_t = self.a_bar[t]
        a_prev = self.a_bar[t_prev] if t_prev >= 0 else torch.ones_like(a_t)
        steps = torch.full((x.shape[0],), t, device=self.device, dtype=torch.long)
        eps = self.model(x, steps)
        x0 = ((x - (1 - a_t).sqrt() * eps) / a_t.sqrt()).clamp(-1.0, 1.0)
        sigma = self.cfg.eta * ((1 - a_prev) / (1 - a_t) * (1 - a_t / a_prev)).sqrt()
        x_prev = a_prev.sqrt() * x0 + (1 - a_prev - sigma ** 2).clamp(min=0).sqrt() * eps
        if self.cfg.eta > 0:
            noise = torch.randn(x.shape, device=x.device, dtype=x.dtype, generator=generator)
            x_prev = x_prev + sigma * noise
        return x_prev

    @torch.no_grad()
    def sample(self, n: int, shape: Tuple[int, ...], seed: int = 0) -> Tensor:
        generator = make_generator(seed, self.device)
        x = self.initial_noise(n, shape, generator)
        steps = self.timesteps()
        for t, t_prev in zip(steps, steps[1:] + [-1]):
            x = self.step(x, t, t_prev, generator)
        return x
