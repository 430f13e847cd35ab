# target: WaveGAN.critic_step
"""WGAN-GP for short one-dimensional waveforms (e.g. single heart beats)."""
import torch
from torch import nn, Tensor


class Generator(nn.Module):
    def __init__(self, latent: int = 16, length: int = 128):
        super().__init__()
        self.latent, self.length = latent, length
        self.fc = nn.Linear(latent, 32 * (length // 4))
        self.net = nn.Sequential(
            nn.ReLU(),
            nn.ConvTranspose1d(32, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose1d(16, 1, 4, stride=2, padding=1), nn.Tanh(),
        )

    def forward(self, z: Tensor) -> Tensor:
        return self.net(self.fc(z).view(z.size(0), 32, self.length // 4))


class Critic(nn.Module):
    def __init__(self, length: int = 128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 16, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(32 * (length // 4), 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1)


def gradient_penalty(critic: nn.Module, real: Tensor, fake: Tensor) -> Tensor:
    mix = torch.rand(real.size(0), 1, 1, device=real.device)
    x = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return (grad.flatten(1).norm(dim=1) - 1).pow(2).mean()


class WaveGAN:
    def __init__(self, generator: Generator, critic: Critic, gp_weight: float = 10.0, lr: float = 1e-4):
        self.generator, self.critic, self.gp_weight = generator, critic, gp_weight
        self.opt_g = torch.optim.Adam(generator.parameters(), lr=lr, betas=(0.0, 0.9))
        self.opt_c = torch.optim.Adam(critic.parameters(), lr=lr, betas=(0.0, 0.9))

    def _noise(self, n: int, like: Tensor) -> Tensor:
        return torch.randn(n, self.generator.latent, device=like.device)

    def critic_step(self, real: Tensor) -> dict:
        """One critic update on a batch of real waves (B, 1, L)."""
        with torch.no_grad():
            fake = self.generator(self._noise(real.size(0), real))
        wdist = self.critic(real).mean() - self.critic(fake).mean()
        gp = gradient_penalty(self.critic, real, fake)
        loss = self.gp_weight * gp - wdist
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        return {"wdist": wdist.item(), "gp": gp.item(), "loss": loss.item()}

    def generator_step(self, real: Tensor) -> float:
        loss = -self.critic(self.generator(self._noise(real.size(0), real))).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.item()
