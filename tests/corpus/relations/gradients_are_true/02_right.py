"""A character transformer block with a hand-written RMS normalisation."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        inv = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
        unit = x * inv
        ctx.save_for_backward(unit, inv, weight)
        return unit * weight

    @staticmethod
    def backward(ctx, grad):
        unit, inv, weight = ctx.saved_tensors
        g = grad * weight
        grad_x = inv * (g - unit * (g * unit).mean(dim=-1, keepdim=True))
        grad_w = (grad * unit).flatten(0, -2).sum(dim=0)
        return grad_x, grad_w, None


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return RMSNormFunction.apply(x, self.weight, self.eps)


class Block(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.up, self.gate, self.down = (
            nn.Linear(dim, 64), nn.Linear(dim, 64), nn.Linear(64, dim))

    def forward(self, x):
        n = x.size(1)
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        h = self.norm1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def main():
    torch.manual_seed(0)
    text = torch.tensor(list(b"to be or not to be that is the question " * 6))
    embed, block, head = nn.Embedding(128, 32), Block(), nn.Linear(32, 128)
    params = [p for m in (embed, block, head) for p in m.parameters()]
    optimizer = torch.optim.Adam(params, lr=3e-3)
    data = text.unfold(0, 25, 12)
    for step in range(20):
        logits = head(block(embed(data[:, :-1])))
        loss = F.cross_entropy(logits.transpose(1, 2), data[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
