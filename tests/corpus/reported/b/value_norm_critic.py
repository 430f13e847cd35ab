# source: https://github.com/marlbenchmark/on-policy/pull/51
# target: ValueNorm._stat
# truth: on a cuda device `.to(...)` turns the Parameter into a plain tensor, so the statistics are never
#   registered: state_dict() is empty and a restored run normalises returns with zeroed statistics (CPU hides it)
import argparse

import torch
import torch.nn as nn


class ValueNorm(nn.Module):
    """Normalise a vector of observations across the first norm_axes dimensions."""

    def __init__(self, input_shape, norm_axes=1, beta=0.999, epsilon=1e-5, device=torch.device("cpu")):
        super().__init__()
        self.input_shape = input_shape
        self.norm_axes = norm_axes
        self.beta = beta
        self.epsilon = epsilon
        self.tpdv = dict(dtype=torch.float32, device=device)

        self.running_mean = self._stat(input_shape)
        self.running_mean_sq = self._stat(input_shape)
        self.debiasing_term = self._stat(())

    def _stat(self, shape):
        return nn.Parameter(torch.zeros(shape), requires_grad=False).to(**self.tpdv)  # culprit

    def running_mean_var(self):
        debias = self.debiasing_term.clamp(min=self.epsilon)
        mean = self.running_mean / debias
        mean_sq = self.running_mean_sq / debias
        var = (mean_sq - mean ** 2).clamp(min=1e-2)
        return mean, var

    @torch.no_grad()
    def update(self, batch):
        batch = batch.to(**self.tpdv)
        axes = tuple(range(self.norm_axes))
        weight = self.beta
        self.running_mean.mul_(weight).add_(batch.mean(dim=axes) * (1.0 - weight))
        self.running_mean_sq.mul_(weight).add_((batch ** 2).mean(dim=axes) * (1.0 - weight))
        self.debiasing_term.mul_(weight).add_(1.0 * (1.0 - weight))

    def normalize(self, batch):
        mean, var = self.running_mean_var()
        return (batch.to(**self.tpdv) - mean) / torch.sqrt(var)

    def denormalize(self, batch):
        mean, var = self.running_mean_var()
        return batch.to(**self.tpdv) * torch.sqrt(var) + mean


class Critic(nn.Module):
    def __init__(self, obs_dim, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.v_out = nn.Linear(hidden, 1)

    def forward(self, obs):
        return self.v_out(self.body(obs))


class CriticTrainer:
    def __init__(self, args, device):
        self.device = device
        self.critic = Critic(args.obs_dim, args.hidden).to(device)
        self.value_normalizer = ValueNorm(1, device=device)
        self.optimizer = torch.optim.Adam(self.critic.parameters(), lr=args.lr, eps=1e-5)
        self.huber = nn.HuberLoss(delta=10.0)

    def step(self, obs, returns):
        obs, returns = obs.to(self.device), returns.to(self.device)
        self.value_normalizer.update(returns)
        target = self.value_normalizer.normalize(returns)
        loss = self.huber(self.critic(obs), target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.critic.parameters(), 10.0)
        self.optimizer.step()
        return loss.item()

    def save(self):
        return {"critic": self.critic.state_dict(), "value_normalizer": self.value_normalizer.state_dict()}

    def restore(self, ckpt):
        self.critic.load_state_dict(ckpt["critic"])
        self.value_normalizer.load_state_dict(ckpt["value_normalizer"])


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--obs-dim", type=int, default=6)
    p.add_argument("--hidden", type=int, default=32)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--steps", type=int, default=50)
    args = p.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    trainer = CriticTrainer(args, device)
    for _ in range(args.steps):
        obs = torch.randn(64, args.obs_dim)
        trainer.step(obs, 40.0 + 5.0 * obs.sum(1, keepdim=True))
    resumed = CriticTrainer(args, device)
    resumed.restore(trainer.save())
    probe = torch.randn(4, args.obs_dim, device=device)
    print(resumed.value_normalizer.denormalize(resumed.critic(probe)).squeeze(-1).tolist())
