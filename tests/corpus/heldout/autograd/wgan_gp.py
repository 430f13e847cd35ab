# target: CriticTrainer.step
# truth: The gradient penalty is computed without create_graph=True, so it is a constant for the critic's parameters:
#   no error, but the penalty never has any influence on training and the gradient norm is not held near 1.
"""Wasserstein critic with gradient penalty for tabular data synthesis."""
import torch
import torch.nn as nn


def make_mlp(sizes, act=nn.LeakyReLU):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), act()]
    layers.append(nn.Linear(sizes[-2], sizes[-1]))
    return nn.Sequential(*layers)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, device=real.device)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mixed)
    grad = torch.autograd.grad(score.sum(), mixed)[0]  # error: DG116
    return ((grad.norm(2, dim=1) - 1.0) ** 2).mean()


class CriticTrainer:
    def __init__(self, critic, generator, noise_dim, lr=1e-4, lambda_gp=10.0):
        self.critic = critic
        self.generator = generator
        self.noise_dim = noise_dim
        self.lambda_gp = lambda_gp
        self.opt = torch.optim.Adam(critic.parameters(), lr=lr, betas=(0.0, 0.9))

    def sample(self, n, device):
        with torch.no_grad():
            return self.generator(torch.randn(n, self.noise_dim, device=device))

    def step(self, real):
        """One critic update; returns a dict of scalars for the logger."""
        fake = self.sample(real.size(0), real.device)
        wasserstein = self.critic(fake).mean() - self.critic(real).mean()
        gp = gradient_penalty(self.critic, real, fake)
        loss = wasserstein + self.lambda_gp * gp

        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return {"wasserstein": -wasserstein.item(), "gp": gp.item(), "critic_loss": loss.item()}


def build(n_features=12, noise_dim=8):
    critic = make_mlp([n_features, 64, 64, 1])
    generator = make_mlp([noise_dim, 64, n_features], act=nn.ReLU)
    return CriticTrainer(critic, generator, noise_dim, lr=1e-3)
