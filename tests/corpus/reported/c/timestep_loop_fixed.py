# source: https://github.com/huggingface/accelerate/issues/2251
import math

import torch
from torch import nn


class LossSecondMomentSampler:
    """Draws time steps in proportion to the root of the recent squared losses."""

    def __init__(self, num_timesteps, history_per_term=4, uniform_prob=0.01):
        self.num_timesteps = num_timesteps
        self.history_per_term = history_per_term
        self.uniform_prob = uniform_prob
        self.history = torch.zeros(num_timesteps, history_per_term)
        self.counts = torch.zeros(num_timesteps, dtype=torch.long)

    def weights(self):
        if not bool((self.counts == self.history_per_term).all()):
            return torch.ones(self.num_timesteps)
        w = self.history.pow(2).mean(dim=1).sqrt()
        w = w / w.sum()
        return w * (1 - self.uniform_prob) + self.uniform_prob / len(w)

    def sample(self, batch_size):
        p = self.weights()
        p = p / p.sum()
        indices = torch.multinomial(p, batch_size, replacement=True)
        return indices, 1.0 / (len(p) * p[indices])

    def update(self, ts, losses):
        for t, loss in zip(ts.tolist(), losses.tolist()):
            if self.counts[t] == self.history_per_term:
                self.history[t] = self.history[t].roll(-1)
                self.history[t, -1] = loss
            else:
                self.history[t, self.counts[t]] = loss
                self.counts[t] += 1


class Denoiser(nn.Module):
    def __init__(self, dim, width=32):
        super().__init__()
        self.width = width
        self.net = nn.Sequential(nn.Linear(dim + width, 64), nn.SiLU(), nn.Linear(64, dim))

    def embed(self, t):
        half = self.width // 2
        freqs = torch.exp(-math.log(1000) * torch.arange(half, device=t.device) / half)
        args = t[:, None].float() * freqs
        return torch.cat([args.cos(), args.sin()], dim=-1)

    def forward(self, x, t):
        return self.net(torch.cat([x, self.embed(t)], dim=-1))


class GaussianDiffusion(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.register_buffer("alpha_bar", torch.cumprod(1 - torch.linspace(1e-3, 0.2, steps), dim=0))

    def training_losses(self, model, x, t):
        noise = torch.randn_like(x)
        a = self.alpha_bar[t].unsqueeze(1)
        x_t = a.sqrt() * x + (1 - a).sqrt() * noise
        return ((model(x_t, t) - noise) ** 2).mean(dim=1)


class TrainLoop:
    def __init__(self, model, diffusion, sampler, device, lr=1e-3, steps=20):
        self.device = device
        self.model = model.to(device)
        self.diffusion = diffusion.to(device)
        self.schedule_sampler = sampler
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.steps = steps

    def run_loop(self, data):
        for step in range(self.steps):
            loss = self.run_step(data[torch.randint(len(data), (8,))].to(self.device))
            if step % 5 == 0:
                print(f"step {step} loss {loss:.4f}")

    def run_step(self, batch):
        self.opt.zero_grad()
        loss = self.forward_backward(batch)
        self.opt.step()
        return loss.item()

    def forward_backward(self, batch):
        t, weights = self.schedule_sampler.sample(batch.shape[0])
        t = t.to(batch.device)
        weights = weights.to(batch.device)
        losses = self.diffusion.training_losses(self.model, batch, t)
        self.schedule_sampler.update(t, losses.detach())
        loss = (losses * weights).mean()
        loss.backward()
        return loss.detach()


if __name__ == "__main__":
    torch.manual_seed(0)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    TrainLoop(Denoiser(4), GaussianDiffusion(6), LossSecondMomentSampler(6), dev).run_loop(torch.randn(64, 4))
