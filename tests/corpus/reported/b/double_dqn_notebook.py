# source: https://github.com/datawhalechina/easy-rl/pull/117
# target: DoubleDQN.__init__
# truth: policy_net and target_net are one and the same module (`.to()` returns the module itself); the target
#   moves with every update and the periodic copy does nothing
import math
import random
from collections import deque

import torch
import torch.nn as nn
import torch.optim as optim


class MLP(nn.Module):
    def __init__(self, n_states, n_actions, hidden_dim=64):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_states, hidden_dim), nn.ReLU(),
            nn.Linear(hidden_dim, hidden_dim), nn.ReLU(),
            nn.Linear(hidden_dim, n_actions),
        )

    def forward(self, x):
        return self.layers(x)


class ReplayBuffer:
    def __init__(self, capacity):
        self.buffer = deque(maxlen=capacity)

    def push(self, *transition):
        self.buffer.append(transition)

    def sample(self, batch_size):
        return zip(*random.sample(self.buffer, batch_size))

    def __len__(self):
        return len(self.buffer)


class DoubleDQN:
    def __init__(self, n_actions, model, memory, cfg):
        self.n_actions = n_actions
        self.device = torch.device(cfg["device"])
        self.gamma = cfg["gamma"]
        self.batch_size = cfg["batch_size"]
        self.target_update = cfg["target_update"]
        self.sample_count = 0
        self.policy_net = model.to(self.device)
        self.target_net = model.to(self.device)  # culprit
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.optimizer = optim.Adam(self.policy_net.parameters(), lr=cfg["lr"])
        self.memory = memory

    def epsilon(self):
        return 0.05 + 0.9 * math.exp(-self.sample_count / 300)

    @torch.no_grad()
    def sample_action(self, state):
        self.sample_count += 1
        if random.random() < self.epsilon():
            return random.randrange(self.n_actions)
        state = torch.tensor(state, device=self.device).unsqueeze(0)
        return self.policy_net(state).argmax(dim=1).item()

    def update(self):
        if len(self.memory) < self.batch_size:
            return None
        states, actions, rewards, next_states, dones = self.memory.sample(self.batch_size)
        states = torch.tensor(states, device=self.device)
        next_states = torch.tensor(next_states, device=self.device)
        actions = torch.tensor(actions, device=self.device).unsqueeze(1)
        rewards = torch.tensor(rewards, device=self.device).unsqueeze(1)
        dones = torch.tensor(dones, dtype=torch.float, device=self.device).unsqueeze(1)
        q_value = self.policy_net(states).gather(1, actions)
        with torch.no_grad():
            next_action = self.policy_net(next_states).argmax(1, keepdim=True)
            next_q = self.target_net(next_states).gather(1, next_action)
            expected = rewards + self.gamma * next_q * (1 - dones)
        loss = nn.functional.mse_loss(q_value, expected)
        self.optimizer.zero_grad()
        loss.backward()
        for param in self.policy_net.parameters():
            param.grad.clamp_(-1, 1)
        self.optimizer.step()
        if self.sample_count % self.target_update == 0:
            self.target_net.load_state_dict(self.policy_net.state_dict())
        return loss.item()


class PointEnv:
    def reset(self):
        self.x, self.t = random.uniform(-1, 1), 0
        return [self.x, 1.0]

    def step(self, a):
        self.x += 0.2 * (a - 1)
        self.t += 1
        return [self.x, 1.0], -abs(self.x), self.t >= 15


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    cfg = {"device": "cuda" if torch.cuda.is_available() else "cpu", "gamma": 0.95, "batch_size": 32,
           "target_update": 50, "lr": 1e-3}
    agent = DoubleDQN(3, MLP(2, 3), ReplayBuffer(2000), cfg)
    env = PointEnv()
    for ep in range(12):
        s, done, total = env.reset(), False, 0.0
        while not done:
            a = agent.sample_action(s)
            s2, r, done = env.step(a)
            agent.memory.push(s, a, r, s2, done)
            s, total = s2, total + r
            agent.update()
    probe = torch.tensor([[0.5, 1.0]], device=agent.device)
    print("last return %.2f" % total, agent.policy_net(probe).tolist(), agent.target_net(probe).tolist())
