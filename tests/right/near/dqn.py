"""A target network, a replay buffer that is sampled once it holds enough."""

import random
from collections import deque
import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


class QNet(nn.Module):
    def __init__(self, obs=4, actions=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 64), nn.ReLU(), nn.Linear(64, actions))

    def forward(self, x):
        return self.net(x)


class ReplayBuffer:
    def __init__(self, capacity=1000):
        self.data = deque(maxlen=capacity)

    def push(self, *item):
        self.data.append(item)

    def sample(self, n):
        batch = random.sample(list(self.data), n)
        s, a, r, s2, d = zip(*batch)
        return (torch.stack(s).to(device), torch.tensor(a, device=device), torch.tensor(r, device=device),
                torch.stack(s2).to(device), torch.tensor(d, dtype=torch.float32, device=device))


class Env:
    def reset(self):
        self.t = 0
        return torch.randn(4)

    def step(self, action):
        self.t += 1
        return torch.randn(4), random.random(), self.t >= 10


def main():
    q, target = QNet().to(device), QNet().to(device)
    target.load_state_dict(q.state_dict())
    target.eval()
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    buffer = ReplayBuffer()
    env = Env()
    for episode in range(3):
        state, done, total = env.reset(), False, 0.0
        while not done:
            if random.random() < 0.1:
                action = random.randrange(2)
            else:
                with torch.no_grad():
                    action = q(state.unsqueeze(0).to(device)).argmax(1).item()
            nxt, reward, done = env.step(action)
            buffer.push(state, action, reward, nxt, done)
            state = nxt
            total += reward
            if len(buffer.data) < 4:
                continue
            s, a, r, s2, d = buffer.sample(4)
            values = q(s).gather(1, a.unsqueeze(1)).squeeze(1)
            with torch.no_grad():
                best = target(s2).max(1).values
                wanted = r + 0.99 * best * (1 - d)
            loss = F.smooth_l1_loss(values, wanted)
            opt.zero_grad()
            loss.backward()
            opt.step()
            for tp, p in zip(target.parameters(), q.parameters()):
                tp.data.copy_(0.005 * p.data + 0.995 * tp.data)


if __name__ == "__main__":
    main()
