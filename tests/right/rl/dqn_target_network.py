"""Double DQN with a ring buffer of tensors, epsilon-greedy actions and a hard-synced target network."""
import copy
import random

import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
N_STATES, N_ACTIONS = 8, 2
GAMMA, BATCH, SYNC_EVERY = 0.95, 32, 25


class RingBuffer:
    """Lives on the host, where single transitions arrive; only sampled batches travel to the device."""

    def __init__(self, capacity):
        self.s = torch.zeros(capacity, dtype=torch.long)
        self.a = torch.zeros(capacity, dtype=torch.long)
        self.r = torch.zeros(capacity)
        self.s2 = torch.zeros(capacity, dtype=torch.long)
        self.done = torch.zeros(capacity, dtype=torch.bool)
        self.capacity, self.ptr, self.size = capacity, 0, 0

    def push(self, s, a, r, s2, done):
        i = self.ptr
        self.s[i], self.a[i], self.r[i], self.s2[i], self.done[i] = s, a, r, s2, done
        self.ptr = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        i = torch.randint(self.size, (n,))
        return tuple(col[i].to(device) for col in (self.s, self.a, self.r, self.s2, self.done))


def env_step(state, action, t):
    nxt = min(state + 1, N_STATES - 1) if action == 1 else 0
    terminal = nxt == N_STATES - 1
    return nxt, (1.0 if terminal else 0.0), terminal, terminal or t >= 24


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N_STATES, 32), nn.ReLU(), nn.Linear(32, N_ACTIONS))

    def forward(self, s):
        return self.net(F.one_hot(s, N_STATES).float())


@torch.no_grad()
def act(q, state, eps):
    if random.random() < eps:
        return random.randrange(N_ACTIONS)
    return q(torch.tensor([state], device=device)).argmax(dim=1).item()


def learn(q, target, opt, buffer):
    s, a, r, s2, done = buffer.sample(BATCH)
    with torch.no_grad():
        best = q(s2).argmax(dim=1, keepdim=True)
        bootstrap = target(s2).gather(1, best).squeeze(1)
        y = r + GAMMA * bootstrap.masked_fill(done, 0.0)
    chosen = q(s).gather(1, a.unsqueeze(1)).squeeze(1)
    loss = F.smooth_l1_loss(chosen, y)
    opt.zero_grad()
    loss.backward()
    opt.step()


def main():
    random.seed(0)
    torch.manual_seed(0)
    q = QNet().to(device)
    target = copy.deepcopy(q).requires_grad_(False)
    opt = torch.optim.Adam(q.parameters(), lr=5e-3)
    buffer = RingBuffer(1000)
    state, t, wins, episodes = 0, 0, 0, 0
    for step in range(600):
        eps = max(0.1, 1.0 - step / 300)
        action = act(q, state, eps)
        nxt, reward, terminal, over = env_step(state, action, t)
        buffer.push(state, action, reward, nxt, terminal)  # a time-out is not a terminal state
        state, t = (0, 0) if over else (nxt, t + 1)
        wins, episodes = wins + int(terminal), episodes + int(over)
        if buffer.size >= BATCH:
            learn(q, target, opt, buffer)
        if step % SYNC_EVERY == 0:
            target.load_state_dict(q.state_dict())
    with torch.no_grad():
        greedy = q(torch.arange(N_STATES - 1, device=device)).argmax(1).tolist()
    print(f"{wins} of {episodes} episodes won; greedy actions {greedy}")


if __name__ == "__main__":
    main()
