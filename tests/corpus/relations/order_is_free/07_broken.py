import torch
import torch.nn as nn


class Dynamics(nn.Module):
    """Residual model of a two dimensional system."""

    def __init__(self, state=2, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(state, hidden), nn.Tanh(), nn.Linear(hidden, state))

    def forward(self, s):
        return s + 0.1 * self.net(s)

    def rollout(self, s, steps):
        out = []
        for _ in range(steps):
            s = self(s)
            out.append(s)
        return torch.stack(out, dim=1)


def rollout_loss(pred, true, decay=0.9):
    """Squared error of rollouts (B, T, S); later steps count less."""
    err = (pred - true).pow(2).sum(-1)
    w = decay ** torch.arange(err.size(0), dtype=err.dtype)
    return (err * w[:, None]).mean()


def simulate(s, steps):
    a = torch.tensor([[0.0, 1.0], [-1.0, -0.1]])
    out = []
    for _ in range(steps):
        s = s + 0.1 * s @ a.t()
        out.append(s)
    return torch.stack(out, dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    start = torch.randn(16, 2)
    true = simulate(start, 10)
    model = Dynamics()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for it in range(20):
        loss = rollout_loss(model.rollout(start, 10), true)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("loss", loss.item())
