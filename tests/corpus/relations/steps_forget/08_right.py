from typing import Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(sizes, last=None) -> nn.Sequential:
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i < len(sizes) - 2:
            layers.append(nn.LeakyReLU(0.2))
    if last is not None:
        layers.append(last)
    return nn.Sequential(*layers)


class GANTrainer:
    """Alternating updates of a generator and a discriminator on vectors.

    Attributes:
        generator: maps latent codes to samples.
        discriminator: maps samples to one logit each.
    """

    def __init__(self, data_dim: int, latent_dim: int = 8, hidden: int = 64,
                 lr_g: float = 2e-4, lr_d: float = 2e-4):
        self.latent_dim = latent_dim
        self.generator = mlp([latent_dim, hidden, hidden, data_dim], nn.Tanh())
        self.discriminator = mlp([data_dim, hidden, hidden, 1])
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=lr_g, betas=(0.5, 0.999))
        self.opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=lr_d, betas=(0.5, 0.999))

    def sample(self, n: int) -> torch.Tensor:
        device = next(self.generator.parameters()).device
        return self.generator(torch.randn(n, self.latent_dim, device=device))

    def step(self, real: torch.Tensor) -> Tuple[float, float]:
        """One discriminator update followed by one generator update."""
        fake = self.sample(len(real))

        logits_real = self.discriminator(real)
        logits_fake = self.discriminator(fake.detach())
        loss_d = F.softplus(-logits_real).mean() + F.softplus(logits_fake).mean()
        self.opt_d.zero_grad()
        loss_d.backward()
        self.opt_d.step()

        loss_g = F.softplus(-self.discriminator(fake)).mean()
        self.opt_g.zero_grad()
        loss_g.backward()
        self.opt_g.step()
        return loss_d.item(), loss_g.item()
