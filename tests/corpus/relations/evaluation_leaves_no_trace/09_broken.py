import torch
import torch.nn as nn
import torch.nn.functional as F


class AnnealedRouter(nn.Module):
    """Soft routing to experts; the temperature falls during training."""

    def __init__(self, dim, experts, start=2.0, end=0.5, steps=200):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.start, self.end, self.steps = start, end, steps
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    def temperature(self):
        done = min(self.step.item() / self.steps, 1.0)
        return self.start + (self.end - self.start) * done

    def forward(self, x):
        weights = F.softmax(self.gate(x) / self.temperature(), dim=-1)
        self.step += 1
        return weights


class MixtureOfExperts(nn.Module):
    def __init__(self, dim=10, experts=4, out=1):
        super().__init__()
        self.router = AnnealedRouter(dim, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, out)) for _ in range(experts)
        )

    def forward(self, x):
        w = self.router(x)
        y = torch.stack([e(x) for e in self.experts], dim=-1)
        return (y * w.unsqueeze(1)).sum(-1)


def main():
    torch.manual_seed(0)
    x = torch.randn(128, 10)
    y = torch.where(x[:, :1] > 0, x[:, 1:2], x[:, 2:3] ** 2)
    model = MixtureOfExperts()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        model.train()
        for i in range(0, 96, 16):
            loss = F.mse_loss(model(x[i:i + 16]), y[i:i + 16])
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            print(epoch, F.mse_loss(model(x[96:]), y[96:]).item())


if __name__ == "__main__":
    main()
