# target: train
"""Character-level language model: decoder-only transformer, trainer and step statistics."""
import torch
import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(dim), CausalSelfAttention(dim, heads)
        self.ln2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, dim=128, depth=4, heads=4, context=128):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.ln, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        pos = torch.arange(ids.shape[1], device=ids.device)
        return self.head(self.ln(self.blocks(self.tok(ids) + self.pos(pos))))


def gradient_norm(parameters):
    """L2 norm of all gradients together."""
    norms = [p.grad.norm() for p in parameters if p.grad is not None]
    return torch.stack(norms).norm()


class StepStats:
    """Collects (loss, gradient norm) and reports their means every `every` steps."""

    def __init__(self, every, report=print):
        self.every, self.report, self.rows = every, report, []

    def add(self, step, loss, grad_norm):
        self.rows.append(torch.stack([loss, grad_norm]))
        if (step + 1) % self.every == 0:
            loss, norm = torch.stack(self.rows).mean(dim=0).tolist()
            self.report(f"step {step + 1}: loss {loss:.4f}, grad norm {norm:.3f}")
            self.rows.clear()


def train(model, batches, device, lr=3e-4, log_every=100):
    """batches yields int64 ids of shape (B, T + 1)."""
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    stats = StepStats(log_every)
    for step, ids in enumerate(batches):
        ids = ids.to(device, non_blocking=True)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        stats.add(step, loss.detach(), gradient_norm(model.parameters()))
        optimizer.step()
