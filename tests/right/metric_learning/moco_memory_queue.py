"""MoCo: a momentum encoder without gradients and a ring queue of keys kept in buffers."""
import copy

import torch
from torch import nn
from torch.nn import functional as F


class MoCo(nn.Module):
    def __init__(self, encoder, dim=16, queue=128, momentum=0.98, temperature=0.1):
        super().__init__()
        self.m, self.t = momentum, temperature
        self.encoder_q = encoder
        self.encoder_k = copy.deepcopy(encoder).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(queue, dim), dim=1))
        self.register_buffer("ptr", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def momentum_update(self):
        for k, q in zip(self.encoder_k.parameters(), self.encoder_q.parameters()):
            k.mul_(self.m).add_(q, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        where = (self.ptr + torch.arange(keys.size(0), device=keys.device)) % self.queue.size(0)
        self.queue[where] = keys
        self.ptr.add_(keys.size(0)).remainder_(self.queue.size(0))

    def forward(self, x_q, x_k):
        q = F.normalize(self.encoder_q(x_q), dim=1)
        with torch.no_grad():
            self.momentum_update()
            k = F.normalize(self.encoder_k(x_k), dim=1)
        positive = (q * k).sum(dim=1, keepdim=True)
        negative = q @ self.queue.clone().T  # a copy: the queue changes before the backward pass
        logits = torch.cat([positive, negative], dim=1) / self.t
        labels = torch.zeros(logits.size(0), dtype=torch.long, device=logits.device)
        self.enqueue(k)
        return logits, labels


def view(x):
    return x + 0.3 * torch.randn_like(x)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 16))
    model = MoCo(encoder).to(device)
    opt = torch.optim.SGD(model.encoder_q.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for step in range(80):
        x = torch.randn(32, 12, device=device)
        logits, labels = model(view(x), view(x))
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            hit = (logits.detach().argmax(1) == labels).float().mean()
            print(f"step {step}: loss {loss.item():.3f}, instance accuracy {hit.item():.2f}")
    assert all(p.grad is None for p in model.encoder_k.parameters())


if __name__ == "__main__":
    main()
