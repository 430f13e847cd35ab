"""Bahdanau attention with masked softmax; every source has at least one token, so no row is fully masked."""
import torch
from torch import nn
from torch.nn import functional as F


class AdditiveAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, q, memory, valid):
        energy = self.v(torch.tanh(self.query(q).unsqueeze(1) + self.key(memory))).squeeze(-1)
        energy = energy.masked_fill(~valid, float("-inf"))
        weights = energy.softmax(dim=-1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class Pointer(nn.Module):
    """Finds the position of the largest value of a padded sequence."""

    def __init__(self, dim=24):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(1, dim), nn.Tanh(), nn.Linear(dim, dim))
        self.start = nn.Parameter(torch.zeros(dim))
        self.attend = AdditiveAttention(dim)
        self.refine = nn.GRUCell(dim, dim)

    def forward(self, values, valid):
        memory = self.lift(values.unsqueeze(-1))
        state = self.start.expand(values.size(0), -1)
        weights = None
        for _ in range(2):
            context, weights = self.attend(state, memory, valid)
            state = self.refine(context, state)
        return weights


def sample(n, max_len, device):
    lengths = torch.randint(1, max_len + 1, (n, 1), device=device)
    valid = torch.arange(max_len, device=device) < lengths
    values = torch.randn(n, max_len, device=device)
    target = values.masked_fill(~valid, float("-inf")).argmax(dim=1)
    return values.masked_fill(~valid, 0.0), valid, target


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Pointer().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(150):
        values, valid, target = sample(64, 7, device)
        weights = net(values, valid)
        picked = weights.gather(1, target.unsqueeze(1)).squeeze(1)
        loss = -picked.clamp(min=1e-8).log().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if step % 50 == 0:
            print(f"{step}: nll {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        values, valid, target = sample(500, 7, device)
        hit = net(values, valid).argmax(1) == target
    print(f"accuracy {hit.float().mean().item():.3f}")


if __name__ == "__main__":
    main()
