"""REINFORCE with a moving baseline in a corridor that must be walked to the right."""
import torch
from torch import nn
from torch.distributions import Categorical

LENGTH = 6
MAX_STEPS = 20
GAMMA = 0.98

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Corridor:
    def reset(self):
        self.pos, self.t = 0, 0
        return self.pos

    def step(self, action):
        self.pos = max(0, self.pos + (1 if action == 1 else -1))
        self.t += 1
        done = self.pos >= LENGTH - 1 or self.t >= MAX_STEPS
        reward = 1.0 if self.pos >= LENGTH - 1 else -0.05
        return self.pos, reward, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(LENGTH, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, state):
        return Categorical(logits=self.out(torch.tanh(self.embed(state))))


def rollout(env, policy):
    log_probs, rewards = [], []
    state, done = env.reset(), False
    while not done:
        dist = policy(torch.tensor(state, device=device))
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        state, reward, done = env.step(action.item())  # the environment lives on the host
        rewards.append(reward)
    return torch.stack(log_probs), rewards


def discounted(rewards):
    returns, running = [], 0.0
    for r in reversed(rewards):
        running = r + GAMMA * running
        returns.append(running)
    returns.reverse()
    return torch.tensor(returns, device=device)


def main():
    torch.manual_seed(0)
    env, policy = Corridor(), Policy().to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-2)
    baseline = torch.zeros((), device=device)
    recent = []
    for episode in range(120):
        log_probs, rewards = rollout(env, policy)
        returns = discounted(rewards)
        advantage = returns - baseline
        loss = -(log_probs * advantage).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        baseline.lerp_(returns.mean(), 0.1)
        recent.append(len(rewards))
        if (episode + 1) % 40 == 0:
            print(f"episode {episode + 1}: mean length {sum(recent[-40:]) / 40:.1f}")


if __name__ == "__main__":
    main()
