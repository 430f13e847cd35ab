# target: script
# truth: The hand-written clipping calls .item() on the norm of every parameter, so each training step waits for the GPU
#   once per parameter tensor (38 times here): no error, low GPU use.
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ResidualMLP(nn.Module):
    def __init__(self, dim, depth, classes):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim)) for _ in range(depth)
        )
        self.out = nn.Linear(dim, classes)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)


def clip_gradients(params, max_norm):
    """Scale all gradients so that their joint L2 norm is at most max_norm; returns the norm before."""
    grads = [p.grad for p in params if p.grad is not None]
    total = 0.0
    for g in grads:
        total += g.norm(2).item() ** 2  # error: DG601
    total = total ** 0.5
    scale = min(1.0, max_norm / (total + 1e-6))
    for g in grads:
        g.mul_(scale)
    return total


def run_epoch(model, loader, optimizer, device, args, epoch):
    model.train()
    loss_sum = torch.zeros((), device=device)
    start = time.time()
    for step, (x, y) in enumerate(loader, 1):
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        grad_norm = clip_gradients(list(model.parameters()), args.max_norm)
        optimizer.step()
        loss_sum += loss.detach()
        if step % args.log_every == 0:
            print(f"epoch {epoch} step {step} loss {loss_sum.item() / step:.4f} |g| {float(grad_norm):.3f}")
    print(f"epoch {epoch}: loss {loss_sum.item() / len(loader):.4f} in {time.time() - start:.1f}s")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--dim", type=int, default=64)
    ap.add_argument("--depth", type=int, default=6)
    ap.add_argument("--max-norm", type=float, default=1.0)
    ap.add_argument("--log-every", type=int, default=20)
    args = ap.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(2000, args.dim), torch.randint(0, 10, (2000,)))
    loader = DataLoader(data, batch_size=50, shuffle=True, pin_memory=device.type == "cuda")
    model = ResidualMLP(args.dim, args.depth, 10).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        run_epoch(model, loader, optimizer, device, args, epoch)


if __name__ == "__main__":
    main()
