# source: https://github.com/datawhalechina/easy-rl/issues/140
# target: DuelingNet.forward
# truth: the advantage is centred by the mean over the whole batch instead of each state's actions; Q-values of one
#   state change with the other states in the batch and value/advantage are not identifiable
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn, optim


class Batch(NamedTuple):
    state: torch.Tensor
    action: torch.Tensor
    reward: torch.Tensor
    next_state: torch.Tensor
    done: torch.Tensor


class DuelingNet(nn.Module):
    def __init__(self, n_states: int, n_actions: int, hidden_dim: int = 128) -> None:
        super().__init__()
        self.hidden_layer = nn.Sequential(nn.Linear(n_states, hidden_dim), nn.ReLU())
        self.advantage_layer = nn.Sequential(
            nn.Linear(hidden_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, n_actions)
        )
        self.value_layer = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, 1))

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        x = self.hidden_layer(state)
        advantage = self.advantage_layer(x)
        value = self.value_layer(x)
        return value + advantage - advantage.mean()  # culprit


class TensorReplay:
    def __init__(self, capacity: int, n_states: int, device: torch.device) -> None:
        self.capacity, self.device = capacity, device
        self.state = torch.zeros(capacity, n_states)
        self.next_state = torch.zeros(capacity, n_states)
        self.action = torch.zeros(capacity, 1, dtype=torch.long)
        self.reward = torch.zeros(capacity, 1)
        self.done = torch.zeros(capacity, 1)
        self.size = self.pos = 0

    def push(self, s, a, r, s2, d) -> None:
        i = self.pos
        self.state[i], self.action[i], self.reward[i] = s, a, r
        self.next_state[i], self.done[i] = s2, float(d)
        self.pos = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n: int) -> Batch:
        idx = torch.randint(self.size, (n,))
        fields = (self.state, self.action, self.reward, self.next_state, self.done)
        return Batch(*(f[idx].to(self.device) for f in fields))


class Agent:
    def __init__(self, n_states: int, n_actions: int, device: torch.device) -> None:
        self.device = device
        self.policy_net = DuelingNet(n_states, n_actions, 48).to(device)
        self.target_net = DuelingNet(n_states, n_actions, 48).to(device)
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.optimizer = optim.Adam(self.policy_net.parameters(), lr=1e-3)
        self.memory = TensorReplay(1000, n_states, device)
        self.gamma = 0.9

    @torch.no_grad()
    def act(self, state: torch.Tensor, eps: float) -> int:
        if torch.rand(()).item() < eps:
            return int(torch.randint(3, ()))
        return int(self.policy_net(state.to(self.device).unsqueeze(0)).argmax(1))

    def update(self, batch_size: int = 32) -> float:
        b = self.memory.sample(batch_size)
        q = self.policy_net(b.state).gather(1, b.action)
        with torch.no_grad():
            next_q = self.target_net(b.next_state).max(1, keepdim=True).values
            target = b.reward + self.gamma * next_q * (1 - b.done)
        loss = nn.functional.smooth_l1_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    agent = Agent(4, 3, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    state = torch.randn(4)
    for step in range(160):
        action = agent.act(state, eps=0.3)
        nxt = torch.randn(4)
        agent.memory.push(state, action, float(action == int(state[:3].argmax())), nxt, step % 10 == 9)
        state = nxt
        if step >= 64:
            agent.update()
        if step % 60 == 59:
            agent.target_net.load_state_dict(agent.policy_net.state_dict())
    probe = torch.randn(6, 4, device=agent.device)
    with torch.no_grad():
        print("alone   ", agent.policy_net(probe[:1])[0].tolist())
        print("in batch", agent.policy_net(probe)[0].tolist())
