"""Modules whose parameters are made empty and filled by reset_parameters, and a lazily sized head."""
import math

import torch
from torch import nn
from torch.nn import Parameter, init


class LowRankLinear(nn.Module):
    def __init__(self, in_features, out_features, rank, device=None, dtype=None):
        kw = {"device": device, "dtype": dtype}
        super().__init__()
        self.u = Parameter(torch.empty((out_features, rank), **kw))
        self.v = Parameter(torch.empty((rank, in_features), **kw))
        self.bias = Parameter(torch.empty(out_features, **kw))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long, device=device))
        self.reset_parameters()

    def reset_parameters(self):
        init.orthogonal_(self.u)
        init.kaiming_uniform_(self.v, a=math.sqrt(5))
        init.zeros_(self.bias)

    def forward(self, x):
        if self.training:
            self.calls += 1
        return nn.functional.linear(nn.functional.linear(x, self.v), self.u, self.bias)


class Net(nn.Module):
    def __init__(self, n_out, device):
        super().__init__()
        self.lift = nn.LazyLinear(24, device=device)
        self.mid = LowRankLinear(24, 24, rank=4, device=device)
        self.out = nn.Linear(24, n_out, device=device)

    def forward(self, x):
        x = torch.relu(self.lift(x))
        x = x + torch.relu(self.mid(x))
        return self.out(x)


def main():
    torch.manual_seed(17)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net(n_out=2, device=device)
    with torch.no_grad():
        model.eval()(torch.zeros(1, 9, device=device))  # gives the lazy layer its shape, before the optimizer
    model.train()
    opt = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    for epoch in range(60):
        x = torch.randn(64, 9, device=device)
        target = torch.stack([x.amax(1), x.amin(1)], dim=1)
        loss = nn.functional.mse_loss(model(x), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 20 == 0:
            print(f"{epoch}: {loss.item():.3f}")
    print("training calls of the low-rank layer:", model.mid.calls.item())


if __name__ == "__main__":
    main()
