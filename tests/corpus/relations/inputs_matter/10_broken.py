import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Step = namedtuple("Step", "obs action reward next_obs done")


class QNet(nn.Module):
    def __init__(self, obs_dim, n_actions):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim, 32), nn.ReLU(), nn.Linear(32, n_actions))

    def forward(self, obs):
        return self.net(obs)


class Replay:
    def __init__(self, size=500):
        self.data = deque(maxlen=size)

    def push(self, *args):
        self.data.append(Step(*args))

    def sample(self, n):
        cols = zip(*random.sample(list(self.data), n))
        return [torch.as_tensor(np.asarray(c)) for c in cols]


@torch.no_grad()
def td_targets(target_net, reward, next_obs, done, gamma=0.98):
    q_next = target_net(next_obs).max(dim=1).values
    return reward + gamma * q_next


def main():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    replay = Replay()
    for _ in range(200):
        obs, nxt = np.random.randn(2, 4).astype("float32")
        replay.push(obs, np.random.randint(2), np.float32(obs.sum()), nxt, np.float32(np.random.rand() < 0.1))
    net, target = QNet(4, 2), QNet(4, 2)
    target.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for it in range(20):
        obs, action, reward, next_obs, done = replay.sample(32)
        q = net(obs).gather(1, action[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, td_targets(target, reward, next_obs, done))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("td loss", loss.item())


if __name__ == "__main__":
    main()
