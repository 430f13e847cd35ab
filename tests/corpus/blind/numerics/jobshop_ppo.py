# target: script
# truth: The entropy is NaN from the first update, so the loss and after one step all weights are NaN: illegal actions are masked with -inf, their probability is exactly 0 and their log-probability -inf, and p * log p is 0 * -inf = NaN. The next rollout then raises in torch.multinomial.
"""PPO for job-shop dispatching: at each step only some machines may be chosen."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class PPOConfig:
    obs_dim: int = 12
    n_machines: int = 6
    clip: float = 0.2
    entropy_coef: float = 0.01
    value_coef: float = 0.5
    epochs: int = 3
    lr: float = 3e-4


class ActorCritic(nn.Module):
    def __init__(self, cfg: PPOConfig):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(cfg.obs_dim, 64), nn.Tanh())
        self.pi = nn.Linear(64, cfg.n_machines)
        self.v = nn.Linear(64, 1)

    def forward(self, obs, legal):
        h = self.trunk(obs)
        logits = self.pi(h).masked_fill(~legal, float("-inf"))  # error: DG410
        return F.log_softmax(logits, dim=-1), self.v(h).squeeze(-1)


class PPO:
    def __init__(self, cfg: PPOConfig):
        self.cfg = cfg
        self.net = ActorCritic(cfg)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr)

    @torch.no_grad()
    def act(self, obs, legal):
        logp, value = self.net(obs, legal)
        action = torch.multinomial(logp.exp(), 1).squeeze(-1)
        return action, logp.gather(-1, action.unsqueeze(-1)).squeeze(-1), value

    def update(self, batch):
        c = self.cfg
        adv = batch["ret"] - batch["value"]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(c.epochs):
            logp_all, value = self.net(batch["obs"], batch["legal"])
            logp = logp_all.gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
            ratio = (logp - batch["logp"]).exp()
            clipped = ratio.clamp(1 - c.clip, 1 + c.clip)
            policy_loss = -torch.min(ratio * adv, clipped * adv).mean()
            entropy = -(logp_all.exp() * logp_all).sum(-1).mean()
            value_loss = F.mse_loss(value, batch["ret"])
            loss = policy_loss + c.value_coef * value_loss - c.entropy_coef * entropy
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
            self.opt.step()
        return {"loss": loss.item(), "entropy": entropy.item()}


def simulate(agent: PPO, steps: int = 256):
    """One-step dispatching decisions; the reward is minus the chosen machine's queue length."""
    cfg = agent.cfg
    obs = torch.rand(steps, cfg.obs_dim)
    legal = torch.rand(steps, cfg.n_machines) > 0.3
    legal[:, 0] = True  # the overflow machine can always be used
    action, logp, value = agent.act(obs, legal)
    reward = -obs.gather(1, action.unsqueeze(1)).squeeze(1)
    return {"obs": obs, "legal": legal, "action": action, "logp": logp, "value": value, "ret": reward}


if __name__ == "__main__":
    torch.manual_seed(1)
    agent = PPO(PPOConfig())
    for it in range(5):
        stats = agent.update(simulate(agent))
        print(it, {k: round(v, 4) for k, v in stats.items()})
