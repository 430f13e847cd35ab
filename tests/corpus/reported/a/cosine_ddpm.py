# source: https://github.com/Project-MONAI/MONAI/pull/8427
# target: script
# truth: the cosine schedule returns the unclipped cumulative products shifted by one, so alphas_cumprod[0] is exactly 1
#   and the posterior of the last sampling step divides 0 by 0: the sampled image is all NaN
import argparse
import math

import torch
from torch import nn

SCHEDULES = {}


def schedule(name):
    def register(fn):
        SCHEDULES[name] = fn
        return fn

    return register


@schedule("linear_beta")
def _linear(num_train_timesteps, beta_start=1e-4, beta_end=2e-2):
    betas = torch.linspace(beta_start, beta_end, num_train_timesteps)
    alphas = 1.0 - betas
    return betas, alphas, torch.cumprod(alphas, dim=0)


@schedule("cosine")
def _cosine(num_train_timesteps, s=8e-3):
    x = torch.linspace(0, num_train_timesteps, num_train_timesteps + 1)
    curve = torch.cos(((x / num_train_timesteps) + s) / (1 + s) * math.pi * 0.5) ** 2
    curve = curve / curve[0]
    alphas = torch.clip(curve[1:] / curve[:-1], 0.0001, 0.9999)
    betas = 1.0 - alphas
    return betas, alphas, curve[:-1]  # culprit


class DDPMScheduler(nn.Module):
    def __init__(self, num_train_timesteps=250, schedule="linear_beta", clip_sample=True, **schedule_args):
        super().__init__()
        betas, alphas, alphas_cumprod = SCHEDULES[schedule](num_train_timesteps, **schedule_args)
        self.register_buffer("betas", betas, persistent=False)
        self.register_buffer("alphas", alphas, persistent=False)
        self.register_buffer("alphas_cumprod", alphas_cumprod, persistent=False)
        self.num_train_timesteps = num_train_timesteps
        self.clip_sample = clip_sample

    def add_noise(self, original, noise, timesteps):
        acp = self.alphas_cumprod[timesteps].view(-1, *[1] * (original.dim() - 1))
        return acp.sqrt() * original + (1 - acp).sqrt() * noise

    def step(self, model_output, t, sample):
        acp_t = self.alphas_cumprod[t]
        acp_prev = self.alphas_cumprod[t - 1] if t > 0 else torch.ones_like(acp_t)
        beta_prod_t = 1 - acp_t
        beta_prod_prev = 1 - acp_prev
        pred_original = (sample - beta_prod_t.sqrt() * model_output) / acp_t.sqrt()
        if self.clip_sample:
            pred_original = pred_original.clamp(-1, 1)
        original_coeff = acp_prev.sqrt() * self.betas[t] / beta_prod_t
        current_coeff = self.alphas[t].sqrt() * beta_prod_prev / beta_prod_t
        prev = original_coeff * pred_original + current_coeff * sample
        if t > 0:
            variance = (beta_prod_prev / beta_prod_t * self.betas[t]).clamp(min=1e-20)
            prev = prev + variance.sqrt() * torch.randn_like(sample)
        return prev


class TinyNet(nn.Module):
    def __init__(self, steps, width=16):
        super().__init__()
        self.time = nn.Embedding(steps, width)
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t):
        return self.out(torch.nn.functional.silu(self.inp(x) + self.time(t)[:, :, None, None]))


@torch.no_grad()
def sample(net, scheduler, shape, device):
    net.eval()
    image = torch.randn(shape, device=device)
    for t in range(scheduler.num_train_timesteps - 1, -1, -1):
        steps = torch.full((shape[0],), t, dtype=torch.long, device=device)
        image = scheduler.step(net(image, steps), t, image)
    return image


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedule", default="cosine", choices=sorted(SCHEDULES))
    parser.add_argument("--timesteps", type=int, default=100)
    parser.add_argument("--iters", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scheduler = DDPMScheduler(args.timesteps, schedule=args.schedule).to(device)
    net = TinyNet(args.timesteps).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(args.iters):
        x = torch.rand(8, 1, 16, 16, device=device) * 2 - 1
        t = torch.randint(0, args.timesteps, (8,), device=device)
        noise = torch.randn_like(x)
        loss = (net(scheduler.add_noise(x, noise, t), t) - noise).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    image = sample(net, scheduler, (4, 1, 16, 16), device)
    print(f"loss {loss.item():.4f} sample mean {image.mean().item():.4f} std {image.std().item():.4f}")


if __name__ == "__main__":
    main()
