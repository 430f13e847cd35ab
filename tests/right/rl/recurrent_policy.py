"""A recurrent policy (GRU cell) on a memory task, with hidden state reset at episode ends and truncated traces."""
import torch
from torch import nn
from torch.distributions import Categorical


class MemoryPolicy(nn.Module):
    def __init__(self, obs_dim=3, hidden=16, actions=2):
        super().__init__()
        self.hidden = hidden
        self.cell = nn.GRUCell(obs_dim, hidden)
        self.actor = nn.Linear(hidden, actions)
        self.critic = nn.Linear(hidden, 1)

    def initial_state(self, batch):
        return next(self.parameters()).new_zeros(batch, self.hidden)

    def forward(self, obs, state):
        state = self.cell(obs, state)
        return Categorical(logits=self.actor(state)), self.critic(state).squeeze(-1), state


class CueTask:
    """A cue is shown in the first of four steps; the action in the last must repeat it."""

    LENGTH = 4

    def __init__(self, batch, device):
        self.batch, self.device, self.t = batch, device, 0
        self.new_cue()

    def new_cue(self):
        self.cue = torch.randint(2, (self.batch,), device=self.device)

    def observe(self):
        obs = torch.zeros(self.batch, 3, device=self.device)
        if self.t == 0:
            obs.scatter_(1, self.cue.unsqueeze(1), 1.0)
        obs[:, 2] = float(self.t == self.LENGTH - 1)
        return obs

    def step(self, action):
        last = self.t == self.LENGTH - 1
        reward = (action == self.cue).float() if last else torch.zeros(self.batch, device=self.device)
        self.t = 0 if last else self.t + 1
        if last:
            self.new_cue()
        return reward, last


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env, policy = CueTask(32, device), MemoryPolicy().to(device)
    opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
    state = policy.initial_state(32)
    for update in range(120):
        log_probs, values, rewards = [], [], []
        for _ in range(CueTask.LENGTH):
            dist, value, state = policy(env.observe(), state)
            action = dist.sample()
            reward, over = env.step(action)
            log_probs.append(dist.log_prob(action))
            values.append(value)
            rewards.append(reward)
            if over:
                state = policy.initial_state(32)
        state = state.detach()
        # One reward ends each episode, so it is the return of every step.
        ret = torch.stack(rewards).sum(dim=0)
        value = torch.stack(values)
        advantage = ret - value.detach()
        loss = -(torch.stack(log_probs) * advantage).mean() + 0.5 * (ret - value).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if update % 40 == 39:
            print(f"update {update + 1}: success {ret.mean().item():.2f}")


if __name__ == "__main__":
    main()
