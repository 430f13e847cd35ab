# target: A2C.update
"""Advantage actor-critic for a toy control task."""

import torch
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, observations: int = 6, actions: int = 3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, 32), nn.Tanh())
        self.policy = nn.Linear(32, actions)
        self.value = nn.Linear(32, 1)

    def forward(self, states):
        hidden = self.body(states)
        return Categorical(logits=self.policy(hidden)), self.value(hidden)


def discounted(rewards, gamma):
    returns, running = [], 0.0
    for reward in reversed(rewards):
        running = reward + gamma * running
        returns.append(running)
    return torch.tensor(returns[::-1])


class A2C:
    def __init__(self, gamma: float = 0.99, lr: float = 3e-3):
        self.net = ActorCritic()
        self.gamma = gamma
        self.optimizer = torch.optim.RMSprop(self.net.parameters(), lr=lr)

    def update(self, states, actions, rewards):
        returns = discounted(rewards, self.gamma)
        policy, values = self.net(states)
        value_loss = nn.functional.mse_loss(values.squeeze(1), returns)
        advantages = returns - values.detach().flatten()
        policy_loss = -(policy.log_prob(actions) * advantages).mean()
        loss = policy_loss + 0.5 * value_loss - 0.01 * policy.entropy().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(1)
    agent = A2C()
    for _ in range(2):
        print(agent.update(torch.randn(9, 6), torch.randint(0, 3, (9,)), [1.0] * 8 + [5.0]))
