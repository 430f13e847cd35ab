# target: script
"""REINFORCE on a bandit with context; a learned critic gives a moving baseline."""

import torch
import torch.nn as nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, context=5, arms=4):
        super().__init__()
        self.body = nn.Linear(context, 16)
        self.arms = nn.Linear(16, arms)
        self.critic = nn.Linear(16, 1)

    def forward(self, context):
        hidden = torch.tanh(self.body(context))
        return Categorical(logits=self.arms(hidden)), self.critic(hidden).squeeze(-1)


class Learner:
    def __init__(self, policy, momentum=0.9):
        self.policy = policy
        self.momentum = momentum
        self.baseline = torch.zeros(())
        self.optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)

    def step(self, context, rewards_of):
        choice, value = self.policy(context)
        arms = choice.sample()
        rewards = rewards_of(context, arms)
        advantage = rewards - self.baseline.detach()
        loss = -(choice.log_prob(arms) * advantage).mean() + nn.functional.mse_loss(value, rewards)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.baseline = self.momentum * self.baseline + (1 - self.momentum) * value.mean().detach()
        return rewards.mean().item()


def rewards_of(context, arms):
    return (context.sum(dim=1) > arms).float()


def main():
    torch.manual_seed(0)
    learner = Learner(Policy())
    for _ in range(20):
        learner.step(torch.randn(32, 5), rewards_of)


if __name__ == "__main__":
    main()
