# target: TrainingPipeline.train_one_step
# source: https://github.com/hao-ai-lab/FastVideo/pull/1217
# truth: .item() on the loss inside the gradient-accumulation loop makes the host wait for the GPU after every micro-batch, although the
#   number is only printed every 25 steps; on a GPU the queue runs dry between micro-batches. No effect on results.
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class TrainingArgs:
    gradient_accumulation_steps: int = 8
    micro_batch: int = 16
    max_steps: int = 50
    log_every: int = 25
    lr: float = 2e-3
    timesteps: int = 50


@dataclass
class TrainingBatch:
    step: int = 0
    total_loss: torch.Tensor | float = 0.0
    latents: torch.Tensor | None = None
    noise: torch.Tensor | None = None
    t: torch.Tensor | None = None
    history: list = field(default_factory=list)


class Denoiser(nn.Module):
    def __init__(self, dim=8, width=64, timesteps=50):
        super().__init__()
        self.time = nn.Embedding(timesteps, width)
        self.inp = nn.Linear(dim, width)
        self.body = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, dim))

    def forward(self, x, t):
        return self.body(self.inp(x) + self.time(t))


class TrainingPipeline:
    def __init__(self, args: TrainingArgs):
        self.args = args
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.transformer = Denoiser(timesteps=args.timesteps).to(self.device)
        self.optimizer = torch.optim.AdamW(self.transformer.parameters(), lr=args.lr)
        beta = torch.linspace(1e-3, 0.15, args.timesteps, device=self.device)
        self.alpha_bar = torch.cumprod(1 - beta, 0)
        self.mix = torch.randn(3, 8, device=self.device)

    def get_next_batch(self, tb: TrainingBatch) -> TrainingBatch:
        n = self.args.micro_batch
        tb.latents = torch.tanh(torch.randn(n, 3, device=self.device) @ self.mix)
        tb.noise = torch.randn_like(tb.latents)
        tb.t = torch.randint(0, self.args.timesteps, (n,), device=self.device)
        return tb

    def compute_loss(self, tb: TrainingBatch) -> torch.Tensor:
        ab = self.alpha_bar[tb.t].unsqueeze(1)
        noisy = ab.sqrt() * tb.latents + (1 - ab).sqrt() * tb.noise
        loss = (self.transformer(noisy, tb.t) - tb.noise).pow(2).mean()
        return loss / self.args.gradient_accumulation_steps

    def train_one_step(self, tb: TrainingBatch) -> TrainingBatch:
        self.optimizer.zero_grad(set_to_none=True)
        tb.total_loss = 0.0
        for _ in range(self.args.gradient_accumulation_steps):
            tb = self.get_next_batch(tb)
            loss = self.compute_loss(tb)
            loss.backward()
            tb.total_loss += loss.detach().item()  # error: DG601
        self.optimizer.step()
        return tb

    def train(self):
        tb = TrainingBatch()
        for step in range(1, self.args.max_steps + 1):
            tb.step = step
            tb = self.train_one_step(tb)
            if step % self.args.log_every == 0:
                tb.history.append((step, float(tb.total_loss)))
                print("step %d loss %.4f" % tb.history[-1])
        return tb.history


if __name__ == "__main__":
    torch.manual_seed(0)
    TrainingPipeline(TrainingArgs()).train()
