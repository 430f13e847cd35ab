# target: PPO.update
"""PPO update for environments with invalid actions (board and card games)."""
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Rollout(NamedTuple):
    obs: Tensor
    legal: Tensor  # bool, (N, n_actions), at least one True per row
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    ret: Tensor


def restrict(logits: Tensor, legal: Tensor) -> Tensor:
    """Take the probability from the actions that are not allowed."""
    return logits.masked_fill(~legal, torch.finfo(logits.dtype).min)


class MaskedPolicy(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, hidden: int = 64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, n_actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs: Tensor, legal: Tensor):
        h = self.trunk(obs)
        return F.log_softmax(restrict(self.pi(h), legal), dim=-1), self.v(h).squeeze(-1)

    @torch.no_grad()
    def act(self, obs: Tensor, legal: Tensor):
        logp, value = self(obs, legal)
        action = torch.multinomial(logp.exp(), 1)
        return action.squeeze(-1), logp.gather(-1, action).squeeze(-1), value

    def evaluate(self, obs: Tensor, legal: Tensor, action: Tensor):
        logp, value = self(obs, legal)
        chosen = logp.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        entropy = -(logp.exp() * logp).sum(dim=-1)
        return chosen, entropy, value


class PPO:
    def __init__(self, policy: MaskedPolicy, lr: float = 3e-4, clip: float = 0.2,
                 vf_coef: float = 0.5, ent_coef: float = 0.01, epochs: int = 4, minibatch: int = 64):
        self.policy, self.clip = policy, clip
        self.vf_coef, self.ent_coef = vf_coef, ent_coef
        self.epochs, self.minibatch = epochs, minibatch
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=lr, eps=1e-5)

    def loss(self, b: Rollout) -> Tensor:
        logp, entropy, value = self.policy.evaluate(b.obs, b.legal, b.action)
        ratio = (logp - b.log_prob).exp()
        surrogate = torch.minimum(
            ratio * b.advantage,
            ratio.clamp(1.0 - self.clip, 1.0 + self.clip) * b.advantage,
        )
        value_loss = F.mse_loss(value, b.ret)
        return -surrogate.mean() + self.vf_coef * value_loss - self.ent_coef * entropy.mean()

    def update(self, rollout: Rollout) -> None:
        adv = rollout.advantage
        rollout = rollout._replace(advantage=(adv - adv.mean()) / (adv.std() + 1e-8))
        n = rollout.obs.shape[0]
        for _ in range(self.epochs):
            for idx in torch.randperm(n, device=rollout.obs.device).split(self.minibatch):
                loss = self.loss(Rollout(*(x[idx] for x in rollout)))
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
                self.optimizer.step()
