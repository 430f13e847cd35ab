import torch
import torch.nn as nn

_STATS = {"mean": 0.0, "sq": 1.0}


def scale_rewards(rewards, momentum=0.9):
    """Standardise the rewards of one batch of rollouts (E, T)."""
    mean = momentum * _STATS["mean"] + (1 - momentum) * rewards.mean().item()
    sq = momentum * _STATS["sq"] + (1 - momentum) * rewards.pow(2).mean().item()
    std = max(sq - mean ** 2, 1e-6) ** 0.5
    return (rewards - mean) / std


def reward_to_go(rewards, gamma=0.95):
    out = torch.zeros_like(rewards)
    acc = torch.zeros(rewards.size(0))
    for t in reversed(range(rewards.size(1))):
        acc = rewards[:, t] + gamma * acc
        out[:, t] = acc
    return out


class Policy(nn.Module):
    def __init__(self, obs=4, actions=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 24), nn.Tanh(), nn.Linear(24, actions))

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.net(obs))


def main():
    torch.manual_seed(0)
    policy = Policy()
    opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for it in range(8):
        obs = torch.randn(6, 10, 4)
        dist = policy(obs)
        act = dist.sample()
        rewards = (act == obs[..., :3].argmax(-1)).float() * 5
        adv = reward_to_go(scale_rewards(rewards))
        loss = -(dist.log_prob(act) * adv).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(it, rewards.mean().item())


if __name__ == "__main__":
    main()
