# target: script
# source: https://github.com/DLR-RM/stable-baselines3/issues/325
# truth: 129 steps with minibatches of 32 leave a last minibatch with one sample; its unbiased std is NaN, the normalised
#   advantage and the loss become NaN and every weight after that update too; the next Categorical raises ValueError.
from __future__ import annotations

import dataclasses

import torch
from torch import nn
from torch.distributions import Categorical


@dataclasses.dataclass
class Args:
    n_steps: int = 129
    minibatch: int = 32
    epochs: int = 3
    updates: int = 5
    gamma: float = 0.95
    lam: float = 0.9
    clip: float = 0.2
    lr: float = 1e-3


class Corridor:
    """Walk right to the goal within 20 steps."""

    def __init__(self, length: int = 8):
        self.length = length
        self.reset()

    def reset(self) -> torch.Tensor:
        self.pos, self.t = 0, 0
        return self.obs()

    def obs(self) -> torch.Tensor:
        return nn.functional.one_hot(torch.tensor(self.pos), self.length).float()

    def step(self, action: int):
        self.pos = min(max(self.pos + (1 if action else -1), 0), self.length - 1)
        self.t += 1
        goal = self.pos == self.length - 1
        return self.obs(), float(goal) - 0.01, goal or self.t >= 20


class ActorCritic(nn.Module):
    def __init__(self, n_obs: int, n_act: int):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(n_obs, 32), nn.Tanh(), nn.Linear(32, n_act))
        self.v = nn.Sequential(nn.Linear(n_obs, 32), nn.Tanh(), nn.Linear(32, 1))


class PPO:
    def __init__(self, env: Corridor, args: Args):
        self.env, self.args = env, args
        self.ac = ActorCritic(env.length, 2)
        self.opt = torch.optim.Adam(self.ac.parameters(), lr=args.lr)
        self.obs = env.reset()

    @torch.no_grad()
    def collect(self) -> dict[str, torch.Tensor]:
        cols = {k: [] for k in ("obs", "act", "logp", "rew", "done", "val")}
        for _ in range(self.args.n_steps):
            dist, value = Categorical(logits=self.ac.pi(self.obs)), self.ac.v(self.obs)[0]
            a = dist.sample()
            nxt, r, done = self.env.step(int(a))
            for k, v in zip(cols, (self.obs, a, dist.log_prob(a), torch.tensor(r), torch.tensor(float(done)), value)):
                cols[k].append(v)
            self.obs = self.env.reset() if done else nxt
        roll = {k: torch.stack(v) for k, v in cols.items()}
        nxt_val, gae, adv = self.ac.v(self.obs)[0], torch.zeros(()), []
        for t in reversed(range(self.args.n_steps)):
            live = 1 - roll["done"][t]
            delta = roll["rew"][t] + self.args.gamma * live * nxt_val - roll["val"][t]
            gae = delta + self.args.gamma * self.args.lam * live * gae
            nxt_val = roll["val"][t]
            adv.append(gae)
        roll["adv"] = torch.stack(adv[::-1])
        roll["ret"] = roll["adv"] + roll["val"]
        return roll

    def loss(self, mb: dict[str, torch.Tensor]) -> torch.Tensor:
        adv = mb["adv"]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)  # error: DG410
        dist = Categorical(logits=self.ac.pi(mb["obs"]))
        ratio = (dist.log_prob(mb["act"]) - mb["logp"]).exp()
        clipped = ratio.clamp(1 - self.args.clip, 1 + self.args.clip)
        pg = -torch.min(ratio * adv, clipped * adv).mean()
        vf = (self.ac.v(mb["obs"]).squeeze(-1) - mb["ret"]).pow(2).mean()
        return pg + 0.5 * vf - 0.01 * dist.entropy().mean()

    def learn(self) -> None:
        for update in range(self.args.updates):
            roll = self.collect()
            print(f"update {update} return per step {roll['rew'].mean().item():+.4f}", flush=True)
            for _ in range(self.args.epochs):
                for idx in torch.randperm(self.args.n_steps).split(self.args.minibatch):
                    self.opt.zero_grad()
                    self.loss({k: v[idx] for k, v in roll.items()}).backward()
                    self.opt.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    PPO(Corridor(), Args()).learn()
