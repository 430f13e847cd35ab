# target: script
# source: https://github.com/oxwhirl/pymarl/pull/73
# truth: none, the repaired twin of qmix_episode_buffer.py
import random
from types import SimpleNamespace

import torch
import torch.nn as nn

args = SimpleNamespace(n_agents=3, obs=10, n_actions=4, hidden=128, episode_limit=25, buffer=64, batch=8, t_max=60)


class RNNAgent(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(args.obs, args.hidden)
        self.rnn = nn.GRUCell(args.hidden, args.hidden)
        self.fc2 = nn.Linear(args.hidden, args.n_actions)

    def init_hidden(self, n):
        return torch.zeros(n, args.hidden)

    def forward(self, obs, h):
        h = self.rnn(torch.relu(self.fc1(obs)), h)
        return self.fc2(h), h


class Team:
    """Agents get a reward when all choose the signalled action."""

    def reset(self):
        self.t = 0
        self.signal = random.randrange(args.n_actions)
        return self.observe()

    def observe(self):
        obs = 0.1 * torch.randn(args.n_agents, args.obs)
        obs[:, self.signal] += 1
        return obs

    def step(self, actions):
        reward = (actions == self.signal).float().mean().item()
        self.t += 1
        self.signal = random.randrange(args.n_actions)
        return self.observe(), reward, self.t >= args.episode_limit


class ReplayBuffer:
    def __init__(self, size):
        self.size, self.episodes = size, []

    def insert(self, episode):
        self.episodes = (self.episodes + [episode])[-self.size:]

    def sample(self, n):
        picked = random.sample(self.episodes, min(n, len(self.episodes)))
        return {k: torch.stack([e[k] for e in picked]) for k in picked[0]}


class EpisodeRunner:
    def __init__(self, env, agent, buffer):
        self.env, self.agent, self.buffer = env, agent, buffer

    def run(self, epsilon):
        rows = {"obs": [], "actions": [], "q_taken": [], "reward": []}
        obs, h, done = self.env.reset(), self.agent.init_hidden(args.n_agents), False
        while not done:
            q, h = self.agent(obs, h)
            explore = torch.rand(args.n_agents) < epsilon
            actions = torch.where(explore, torch.randint(args.n_actions, (args.n_agents,)), q.argmax(-1))
            q_taken = q.gather(1, actions[:, None]).squeeze(1).detach()
            nxt, reward, done = self.env.step(actions)
            for k, v in zip(rows, (obs, actions, q_taken, torch.tensor(reward))):
                rows[k].append(v)
            obs = nxt
        self.buffer.insert({k: torch.stack(v) for k, v in rows.items()})
        return sum(r.item() for r in rows["reward"])


def learn(agent, opt, batch):
    h, qs = agent.init_hidden(batch["obs"].size(0) * args.n_agents), []
    for t in range(args.episode_limit):
        q, h = agent(batch["obs"][:, t].flatten(0, 1), h)
        qs.append(q.view(-1, args.n_agents, args.n_actions))
    q = torch.stack(qs, 1).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
    drift = (q.detach() - batch["q_taken"].detach()).abs().mean().item()
    loss = (q - batch["reward"].unsqueeze(-1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item(), drift


if __name__ == "__main__":
    random.seed(1)
    torch.manual_seed(1)
    agent = RNNAgent()
    runner = EpisodeRunner(Team(), agent, ReplayBuffer(args.buffer))
    opt = torch.optim.RMSprop(agent.parameters(), lr=5e-4)
    for ep in range(args.t_max):
        ret = runner.run(epsilon=max(0.05, 1 - ep / 30))
        loss, drift = learn(agent, opt, runner.buffer.sample(args.batch))
        if ep % 15 == 14:
            print(f"episode {ep + 1}: return {ret:.1f} loss {loss:.4f} drift {drift:.3f}")
