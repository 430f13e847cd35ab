import torch
import torch.nn as nn


class RunningWhiten(nn.Module):
    """Standardises observations with running moments."""

    def __init__(self, dim, momentum=0.05):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))

    def forward(self, obs):
        if self.training and obs.size(0) > 1:
            with torch.no_grad():
                self.mean.lerp_(obs.mean(0), self.momentum)
                self.var.lerp_(obs.var(0), self.momentum)
        return (obs - self.mean) / (self.var + 1e-5).sqrt()


class GaussianPolicy(nn.Module):
    def __init__(self, obs_dim=6, act_dim=2):
        super().__init__()
        self.whiten = RunningWhiten(obs_dim)
        self.mu = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, act_dim))
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def forward(self, obs):
        return self.mu(self.whiten(obs))

    def log_prob(self, obs, act):
        dist = torch.distributions.Normal(self(obs), self.log_std.exp())
        return dist.log_prob(act).sum(-1)


def reward(obs, act):
    return -(act - obs[:, :2]).pow(2).sum(-1)


def main():
    torch.manual_seed(0)
    policy = GaussianPolicy()
    opt = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for it in range(10):
        policy.train()
        obs = 2.0 + 3.0 * torch.randn(64, 6)
        with torch.no_grad():
            act = policy(obs) + torch.randn(64, 2)
        r = reward(obs, act)
        loss = -(policy.log_prob(obs, act) * (r - r.mean()) / r.std()).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        policy.eval()
        with torch.no_grad():
            test_obs = 2.0 + 3.0 * torch.randn(32, 6)
            print(it, reward(test_obs, policy(test_obs)).mean().item())


if __name__ == "__main__":
    main()
