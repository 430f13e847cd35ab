# target: train_steps
# truth: next(iter(loader)) starts a new shuffled pass over all samples for every step; each step pays for a permutation of the whole
#   dataset, so the data takes most of the step's time (about 40 ms with a million rows, instead of below one).
"""Click-through-rate model (factorisation machine), trained for a number of steps rather than epochs."""
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class FactorizationMachine(nn.Module):
    def __init__(self, field_sizes, dim=8):
        super().__init__()
        total = sum(field_sizes)
        offsets = torch.tensor([0, *field_sizes[:-1]]).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.linear = nn.Embedding(total, 1)
        self.factors = nn.Embedding(total, dim)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.normal_(self.factors.weight, std=0.01)
        nn.init.zeros_(self.linear.weight)

    def forward(self, fields):
        idx = fields + self.offsets
        v = self.factors(idx)
        pairwise = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(-1)
        return self.bias + self.linear(idx).sum(dim=(1, 2)) + pairwise


def make_log(n_rows, field_sizes, seed=0):
    gen = torch.Generator().manual_seed(seed)
    fields = torch.stack([torch.randint(0, s, (n_rows,), generator=gen) for s in field_sizes], dim=1)
    clicked = (torch.rand(n_rows, generator=gen) < 0.1).float()
    return TensorDataset(fields, clicked)


def train_steps(model, loader, n_steps, lr=1e-3, log_every=50):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    criterion = nn.BCEWithLogitsLoss()
    losses = []
    for step in range(n_steps):
        fields, clicked = next(iter(loader))  # error: DG613
        loss = criterion(model(fields), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % log_every == 0:
            print(f"step {step + 1}: {sum(losses[-log_every:]) / log_every:.4f}")
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    sizes = [1000, 200, 50, 24, 7]
    loader = DataLoader(make_log(args.rows, sizes), batch_size=64, shuffle=True)
    train_steps(FactorizationMachine(sizes), loader, args.steps)


if __name__ == "__main__":
    main()
