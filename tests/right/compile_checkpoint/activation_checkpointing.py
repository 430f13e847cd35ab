"""Activation checkpointing without reentrance: the same gradients as the plain pass, dropout included."""
import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Residual(nn.Module):
    def __init__(self, dim, p=0.1):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Dropout(p), nn.Linear(4 * dim, dim))

    def forward(self, x):
        return x + self.f(x)


class Deep(nn.Module):
    def __init__(self, dim=16, depth=4, use_checkpoint=False):
        super().__init__()
        self.layers = nn.ModuleList([Residual(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 2)
        self.use_checkpoint = use_checkpoint

    def forward(self, x):
        for layer in self.layers:
            if self.use_checkpoint and self.training:
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
        return self.head(x)


def gradients(model, x, y, seed):
    torch.manual_seed(seed)
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters()]


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    plain = Deep().to(device)
    saving = copy.deepcopy(plain)
    saving.use_checkpoint = True
    x = torch.randn(32, 16, device=device)
    y = torch.randint(2, (32,), device=device)
    loss_a, grads_a = gradients(plain, x, y, seed=1)
    loss_b, grads_b = gradients(saving, x, y, seed=1)
    torch.testing.assert_close(loss_a, loss_b)
    torch.testing.assert_close(grads_a, grads_b)

    opt = torch.optim.Adam(saving.parameters(), lr=1e-3)
    saving.train()
    for step in range(15):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(saving(x), y)
        loss.backward()
        opt.step()
    print(f"first loss {loss_b.item():.3f}, last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
