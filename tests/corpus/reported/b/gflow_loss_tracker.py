# source: https://github.com/alexhernandezgarcia/gflownet/pull/133
# target: FlowAgent.train
# truth: the running averages of the losses are computed on tensors with a graph and never detached; every average
#   keeps the graphs of all iterations so far and memory grows for the whole run
import argparse
from collections import namedtuple

import torch
import torch.nn as nn

Losses = namedtuple("Losses", "all term nonterm")


class TorusEnv:
    def __init__(self, side=5, length=4):
        self.side, self.length = side, length

    def sample_paths(self, n, generator):
        steps = torch.randint(0, 2, (n, self.length), generator=generator)
        pos = torch.cumsum(torch.nn.functional.one_hot(steps, 2), dim=1) % self.side
        start = torch.zeros(n, 1, 2, dtype=pos.dtype)
        return torch.cat([start, pos], dim=1), steps

    def featurise(self, pos):
        return torch.nn.functional.one_hot(pos, self.side).float().flatten(-2)

    def reward(self, pos):
        return 0.1 + torch.exp(-((pos.float() - 2.0) ** 2).sum(-1))


class FlowAgent:
    def __init__(self, env, hidden=64, lr=1e-2, ema_alpha=0.5, device="cpu"):
        self.env = env
        self.device = device
        self.ema_alpha = ema_alpha
        self.policy = nn.Sequential(
            nn.Linear(2 * env.side, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2)
        ).to(device)
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.generator = torch.Generator().manual_seed(0)
        self.loss_ema = None
        self.loss_term_ema = None
        self.loss_nonterm_ema = None

    def flowmatch_loss(self, paths, actions):
        feats = self.env.featurise(paths).to(self.device)
        log_flow = self.policy(feats)
        chosen = log_flow[:, :-1].gather(-1, actions.to(self.device).unsqueeze(-1)).squeeze(-1)
        outflow = torch.logsumexp(log_flow[:, 1:-1], dim=-1)
        log_reward = torch.log(self.env.reward(paths[:, -1])).to(self.device)
        term = (chosen[:, -1] - log_reward).pow(2)
        nonterm = (chosen[:, :-1] - outflow).pow(2)
        loss = (term.sum() + nonterm.sum()) / (term.numel() + nonterm.numel())
        return Losses(loss, term.mean(), nonterm.mean())

    def _ema(self, old, new):
        if old is None:
            return new
        return self.ema_alpha * new + (1.0 - self.ema_alpha) * old

    def update_ema(self, losses):
        self.loss_ema = self._ema(self.loss_ema, losses.all)
        self.loss_term_ema = self._ema(self.loss_term_ema, losses.term)
        self.loss_nonterm_ema = self._ema(self.loss_nonterm_ema, losses.nonterm)

    def train(self, n_steps, batch_size, log_every):
        for it in range(n_steps):
            paths, actions = self.env.sample_paths(batch_size, self.generator)
            losses = self.flowmatch_loss(paths, actions)
            self.opt.zero_grad()
            losses.all.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 10.0)
            self.opt.step()
            self.update_ema(losses)  # culprit
            if it % log_every == log_every - 1:
                self.log(it + 1)
        return self

    def log(self, it):
        print("it {} loss {:.2e} term {:.2e} nonterm {:.2e}".format(
            it, float(self.loss_ema), float(self.loss_term_ema), float(self.loss_nonterm_ema)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n-steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    agent = FlowAgent(TorusEnv(), device="cuda" if torch.cuda.is_available() else "cpu")
    agent.train(args.n_steps, args.batch_size, log_every=20)
    depth, node = 0, agent.loss_ema.grad_fn
    while node is not None and node.next_functions:
        node, depth = next((f for f, _ in reversed(node.next_functions) if f is not None), None), depth + 1
    print("nodes behind the average:", depth)
