# target: finetune
# source: https://github.com/adapter-hub/adapters/issues/260
# truth: none, the repaired twin of adapter_finetune.py
import math

import torch
from torch import nn

VOCAB, DIM, SEQ = 30, 32, 10


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 4, alpha: float = 8.0):
        super().__init__()
        self.base = base
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.lora_a.t() @ self.lora_b.t()) * self.scale


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.q, self.k, self.v = (nn.Linear(DIM, DIM) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x):
        h = self.norm1(x)
        a = (self.q(h) @ self.k(h).transpose(1, 2) / DIM ** 0.5).softmax(-1)
        x = x + a @ self.v(h)
        return x + self.ff(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Parameter(torch.randn(SEQ, DIM) * 0.1)
        self.blocks = nn.Sequential(*[Block() for _ in range(depth)])
        self.head = nn.Linear(DIM, 2)

    def forward(self, ids):
        return self.head(self.blocks(self.tok(ids) + self.pos).mean(1))


def add_adapters(model, targets=("q", "v")):
    for p in model.parameters():
        p.requires_grad_(False)
    for block in model.blocks:
        for name in targets:
            setattr(block, name, LoRALinear(getattr(block, name)))
    return model


def task(n, word):
    """is `word` among the tokens?"""
    x = torch.randint(0, VOCAB, (n, SEQ))
    y = torch.randint(0, 2, (n,))
    x[y == 1, 0] = word
    x = x[:, torch.randperm(SEQ)]
    return x, (x == word).any(1).long()


def fit(model, optimizer, word, steps):
    for _ in range(steps):
        x, y = task(64, word)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        x, y = task(1000, word)
        return loss.item(), (model(x).argmax(1) == y).float().mean().item()


def finetune(model, word, steps=250, lr=1e-2):
    model = add_adapters(model)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"trainable parameters: {trainable}")
    return fit(model, optimizer, word, steps)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Encoder()
    print("pretraining  loss %.3f acc %.3f" % fit(net, torch.optim.Adam(net.parameters(), lr=3e-3), word=5, steps=250))
    print("fine-tuning  loss %.3f acc %.3f" % finetune(net, word=11))
