import torch
import torch.nn as nn
from torch.distributions import Categorical


class CorridorEnv:
    """Walk right along a corridor; reward one at its end."""

    def __init__(self, length=6, limit=20):
        self.length, self.limit = length, limit

    def reset(self):
        self.pos, self.t = 0, 0
        return self._obs()

    def _obs(self):
        obs = torch.zeros(self.length)
        obs[self.pos] = 1.0
        return obs

    def step(self, action):
        self.pos = min(max(self.pos + (1 if action == 1 else -1), 0), self.length - 1)
        self.t += 1
        done = self.pos == self.length - 1 or self.t >= self.limit
        return self._obs(), float(self.pos == self.length - 1), done


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, actions=2, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def rollout(env, net, gamma=0.97):
    obs, done, states, actions, rewards = env.reset(), False, [], [], []
    while not done:
        with torch.no_grad():
            action = net(obs)[0].sample()
        states.append(obs)
        actions.append(action)
        obs, reward, done = env.step(action.item())
        rewards.append(reward)
    returns, g = [], 0.0
    for r in reversed(rewards):
        g = r + gamma * g
        returns.insert(0, g)
    return torch.stack(states), torch.stack(actions), torch.tensor(returns)


def train(env, net, episodes=30, momentum=0.9):
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    baseline = torch.zeros(())
    for episode in range(episodes):
        states, actions, returns = rollout(env, net)
        dist, values = net(states)
        baseline = momentum * baseline + (1 - momentum) * values.mean().detach()
        advantage = returns - baseline
        policy_loss = -(dist.log_prob(actions) * advantage).mean()
        value_loss = (returns - values).pow(2).mean()
        loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return returns.numel(), loss.item()


if __name__ == "__main__":
    torch.manual_seed(1)
    env = CorridorEnv()
    length, loss = train(env, ActorCritic(env.length))
    print(f"last episode took {length} steps, loss {loss:.4f}")
