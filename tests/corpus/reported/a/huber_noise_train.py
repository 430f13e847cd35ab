# source: https://github.com/kohya-ss/sd-scripts/pull/2153
# target: script
# truth: the scheduler's alphas_cumprod table is on the CPU and is indexed with CUDA timesteps in the SNR-scaled
#   huber delta: "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
import argparse
from dataclasses import dataclass

import torch
from torch import nn


class NoiseScheduler:
    """DDPM forward process with the scaled-linear schedule."""

    def __init__(self, num_train_timesteps=1000, beta_start=0.00085, beta_end=0.012):
        self.num_train_timesteps = num_train_timesteps
        self.betas = torch.linspace(beta_start**0.5, beta_end**0.5, num_train_timesteps) ** 2
        self.alphas_cumprod = torch.cumprod(1.0 - self.betas, dim=0)

    def add_noise(self, samples, noise, timesteps):
        acp = self.alphas_cumprod.to(device=samples.device, dtype=samples.dtype)
        shape = (-1,) + (1,) * (samples.dim() - 1)
        signal = acp[timesteps].sqrt().view(shape)
        sigma = (1.0 - acp[timesteps]).sqrt().view(shape)
        return signal * samples + sigma * noise


@dataclass
class LossConfig:
    loss_type: str = "huber"
    huber_schedule: str = "snr"
    huber_c: float = 0.1


def huber_delta(cfg, timesteps, scheduler):
    if cfg.huber_schedule == "constant":
        return torch.full(timesteps.shape, cfg.huber_c, device=timesteps.device)
    if cfg.huber_schedule == "exponential":
        rate = -torch.log(torch.tensor(cfg.huber_c, device=timesteps.device)) / scheduler.num_train_timesteps
        return torch.exp(-rate * timesteps)
    if cfg.huber_schedule == "snr":
        alphas_cumprod = scheduler.alphas_cumprod[timesteps]  # culprit
        sigmas = ((1.0 - alphas_cumprod) / alphas_cumprod).sqrt()
        return (1 - cfg.huber_c) / (1 + sigmas) ** 2 + cfg.huber_c
    raise NotImplementedError(cfg.huber_schedule)


def conditional_loss(pred, target, cfg, timesteps, scheduler):
    if cfg.loss_type == "l2":
        return (pred - target).square().mean()
    c = huber_delta(cfg, timesteps, scheduler).view(-1, 1, 1, 1)
    loss = 2 * c * ((pred - target).square() + c**2).sqrt() - 2 * c**2
    return loss.mean()


class Denoiser(nn.Module):
    def __init__(self, channels=4, width=32, steps=1000):
        super().__init__()
        self.time = nn.Embedding(steps, width)
        self.inp = nn.Conv2d(channels, width, 3, padding=1)
        self.mid = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, t):
        h = torch.relu(self.inp(x)) + self.time(t)[:, :, None, None]
        return self.out(torch.relu(self.mid(h)))


def train(args):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    scheduler = NoiseScheduler()
    model = Denoiser().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    cfg = LossConfig(huber_schedule=args.huber_schedule)
    for step in range(args.steps):
        latents = torch.randn(8, 4, 16, 16, device=device)
        noise = torch.randn_like(latents)
        timesteps = torch.randint(0, scheduler.num_train_timesteps, (8,), device=device)
        noisy = scheduler.add_noise(latents, noise, timesteps)
        loss = conditional_loss(model(noisy, timesteps), noise, cfg, timesteps, scheduler)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, round(loss.item(), 4))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=11)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--huber-schedule", default="snr", choices=["constant", "exponential", "snr"])
    train(p.parse_args())
