"""Observation normalisation in front of a policy network."""
import torch
import torch.nn as nn


class RunningNorm(nn.Module):
    def __init__(self, size, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.tensor(eps))

    def update(self, x):
        mean, var, n = x.mean(dim=0), x.var(dim=0, unbiased=False), x.shape[0]
        delta, total = mean - self.mean, self.count + n
        m2 = self.var * self.count + var * n + delta.pow(2) * self.count * n / total
        self.mean += delta * n / total
        self.var.copy_(m2 / total)
        self.count.copy_(total)

    def forward(self, x):
        if self.training:
            self.update(x.detach())
        return (x - self.mean) / torch.sqrt(self.var + self.eps)


class Policy(nn.Module):
    def __init__(self, obs, actions, hidden=32):
        super().__init__()
        self.norm = RunningNorm(obs)
        self.net = nn.Sequential(
            nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, actions))

    def forward(self, obs):
        return torch.softmax(self.net(self.norm(obs)), dim=-1)


def main():
    torch.manual_seed(0)
    policy = Policy(5, 3)
    scale = torch.tensor([1.0, 10.0, 0.1, 300.0, 5.0])
    for _ in range(20):
        policy(torch.randn(32, 5) * scale + scale)
    policy.eval()

    restored = Policy(5, 3)
    restored.load_state_dict(policy.state_dict())
    restored.eval()
    obs = torch.randn(4, 5) * scale + scale
    with torch.no_grad():
        print(policy(obs).argmax(-1).tolist(), restored(obs).argmax(-1).tolist())


if __name__ == "__main__":
    main()
