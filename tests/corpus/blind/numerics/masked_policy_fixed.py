# target: MaskedPPO.update
"""PPO with action masking for discrete board games."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Rollout:
    obs: torch.Tensor        # (N, obs_dim)
    legal: torch.Tensor      # (N, n_actions) bool
    actions: torch.Tensor    # (N,) long, always legal ones
    old_logp: torch.Tensor   # (N,)
    returns: torch.Tensor    # (N,)
    advantages: torch.Tensor  # (N,)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim: int, n_actions: int, hidden: int = 128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.policy = nn.Linear(hidden, n_actions)
        self.value = nn.Linear(hidden, 1)

    def forward(self, obs, legal):
        h = self.body(obs)
        logits = self.policy(h).masked_fill(~legal, -1e9)
        return logits.log_softmax(dim=-1), self.value(h).squeeze(-1)


class MaskedPPO:
    def __init__(self, net: ActorCritic, lr=3e-4, clip=0.2, ent_coef=0.01, vf_coef=0.5, epochs=4):
        self.net = net
        self.clip, self.ent_coef, self.vf_coef, self.epochs = clip, ent_coef, vf_coef, epochs
        self.optimizer = torch.optim.Adam(net.parameters(), lr=lr, eps=1e-5)

    @torch.no_grad()
    def act(self, obs, legal):
        logp, value = self.net(obs, legal)
        action = torch.multinomial(logp.exp(), 1).squeeze(-1)
        return action, logp.gather(1, action[:, None]).squeeze(1), value

    def update(self, roll: Rollout) -> dict:
        adv = (roll.advantages - roll.advantages.mean()) / (roll.advantages.std() + 1e-8)
        stats = {}
        for _ in range(self.epochs):
            logp_all, value = self.net(roll.obs, roll.legal)
            logp = logp_all.gather(1, roll.actions[:, None]).squeeze(1)
            ratio = (logp - roll.old_logp).exp()
            clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
            pg_loss = -torch.min(ratio * adv, clipped * adv).mean()
            vf_loss = (value - roll.returns).pow(2).mean()
            entropy = -(logp_all.exp() * logp_all).sum(dim=-1).mean()
            loss = pg_loss + self.vf_coef * vf_loss - self.ent_coef * entropy

            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
            self.optimizer.step()
            stats = {"pg": pg_loss.item(), "vf": vf_loss.item(), "entropy": entropy.item()}
        return stats
