"""Double Q-learning on random transitions with a copied target network."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class DuelingQNet(nn.Module):
    def __init__(self, obs=4, actions=3, hidden=32, dueling=True):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU())
        self.adv = nn.Linear(hidden, actions)
        self.val = nn.Linear(hidden, 1)
        if dueling:
            self.head = lambda h: self.val(h) + self.adv(h) - self.adv(h).mean(-1, keepdim=True)
        else:
            self.head = lambda h: self.adv(h)

    def forward(self, obs):
        return self.head(self.trunk(obs))


class Agent:
    def __init__(self, net, gamma=0.95, sync=25):
        self.online = net
        self.target = copy.deepcopy(net).requires_grad_(False)
        self.gamma, self.sync, self.steps = gamma, sync, 0
        self.optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def learn(self, obs, action, reward, nxt, done):
        with torch.no_grad():
            best = self.online(nxt).argmax(-1, keepdim=True)
            boot = self.target(nxt).gather(-1, best).squeeze(-1)
            goal = reward + self.gamma * (1 - done) * boot
        q = self.online(obs).gather(-1, action[:, None]).squeeze(-1)
        loss = F.smooth_l1_loss(q, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.sync == 0:
            self.target.load_state_dict(self.online.state_dict())
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = DuelingQNet()
    agent = Agent(net)
    for _ in range(60):
        obs = torch.randn(32, 4)
        loss = agent.learn(obs, torch.randint(0, 3, (32,)), obs[:, 0], torch.randn(32, 4),
                           (torch.rand(32) < 0.1).float())
    print(f"loss {loss:.4f}")
