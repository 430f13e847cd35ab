# source: https://github.com/andri27-ts/Reinforcement-Learning/issues/14
import math
import random
from collections import deque

import torch
from torch import nn, optim


class DuelingDQN(nn.Module):
    def __init__(self, n_obs, n_actions, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_obs, hidden), nn.ReLU())
        self.advantage = nn.Linear(hidden, n_actions)
        self.value = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.trunk(x)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


class CentralControl:
    """Owns the moving and the target network and computes the losses."""

    def __init__(self, obs_size, n_actions, gamma, learning_rate, double=True, device="cpu"):
        self.device = torch.device(device)
        self.moving_nn = DuelingDQN(obs_size, n_actions).to(self.device)
        self.target_nn = DuelingDQN(obs_size, n_actions).to(self.device)
        self.target_nn.load_state_dict(self.moving_nn.state_dict())
        self.optimizer = optim.Adam(self.moving_nn.parameters(), lr=learning_rate)
        self.gamma = gamma
        self.double = double

    def optimize(self, batch):
        self.optimizer.zero_grad()
        loss = self._calculate_loss([b.to(self.device) for b in batch])
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def update_target(self):
        self.target_nn.load_state_dict(self.moving_nn.state_dict())

    def get_max_action(self, obs):
        with torch.no_grad():
            q = self.moving_nn(torch.tensor([obs], device=self.device))
        return int(q.argmax(dim=1))

    def _calculate_loss(self, batch):
        states, actions, rewards, next_states, dones = batch
        q = self.moving_nn(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            next_q = self.target_nn(next_states)
            if self.double:
                best = self.moving_nn(next_states).argmax(dim=1, keepdim=True)
                next_v = next_q.gather(1, best).squeeze(1)
            else:
                next_v = next_q.max(dim=1).values
            expected = rewards + self.gamma * next_v * (1.0 - dones)
        return nn.functional.mse_loss(q, expected)


class ReplayBuffer:
    def __init__(self, size):
        self.memory = deque(maxlen=size)

    def sample(self, n):
        columns = list(zip(*random.sample(self.memory, n)))
        s, r, s2, d = (torch.tensor(columns[i], dtype=torch.float32) for i in (0, 2, 3, 4))
        return s, torch.tensor(columns[1]), r, s2, d


class Corridor:
    """Walk right to the goal; the observation is the position and its sine."""

    def __init__(self, length=8):
        self.length = length

    def _obs(self):
        return [self.pos / self.length, math.sin(self.pos)]

    def reset(self):
        self.pos, self.t = 0, 0
        return self._obs()

    def step(self, action):
        self.t += 1
        self.pos = max(0, self.pos + (1 if action == 1 else -1))
        done = self.pos >= self.length or self.t >= 30
        return self._obs(), float(self.pos >= self.length), done


def main(n_iter=120, update_target_every=30):
    random.seed(0)
    torch.manual_seed(0)
    env, buffer = Corridor(), ReplayBuffer(500)
    agent = CentralControl(2, 2, gamma=0.95, learning_rate=1e-3)
    obs, losses = env.reset(), []
    for step in range(1, n_iter + 1):
        eps = max(0.1, 1.0 - step / n_iter)
        action = random.randrange(2) if random.random() < eps else agent.get_max_action(obs)
        new_obs, reward, done = env.step(action)
        buffer.memory.append((obs, action, reward, new_obs, float(done)))
        obs = env.reset() if done else new_obs
        if len(buffer.memory) >= 32:
            losses.append(agent.optimize(buffer.sample(16)))
        if step % update_target_every == 0:
            agent.update_target()
            print(f"step {step} eps {eps:.2f} loss {sum(losses[-30:]) / max(1, len(losses[-30:])):.5f}")


if __name__ == "__main__":
    main()
