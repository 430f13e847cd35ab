"""Domain-adversarial training with a gradient reversal function whose strength grows."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class GradReverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.strength, None


def grad_reverse(x, strength=1.0):
    return GradReverse.apply(x, strength)


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.label, self.domain = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x, strength):
        h = self.features(x)
        return self.label(h), self.domain(grad_reverse(h, strength)).squeeze(1)


def domain_batch(n, shift, device):
    y = torch.randint(2, (n,), device=device)
    x = torch.randn(n, 3, device=device) * 0.5
    x[:, 0] += y * 2.0 - 1.0
    x[:, 2] += shift
    return x, y


def main(steps=100):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    probe = torch.ones(2, device=device, requires_grad=True)
    grad_reverse(probe, 0.5).sum().backward()
    assert torch.equal(probe.grad, torch.full_like(probe, -0.5))

    net = DANN().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    bce = nn.BCEWithLogitsLoss()
    is_target = torch.cat([torch.zeros(32, device=device), torch.ones(32, device=device)])
    for step in range(steps):
        strength = 2 / (1 + math.exp(-10 * step / steps)) - 1
        source, y = domain_batch(32, 0.0, device)
        target, _ = domain_batch(32, 2.0, device)
        logits, domain = net(torch.cat([source, target]), strength)
        loss = F.cross_entropy(logits[:32], y) + bce(domain, is_target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 0:
            print(f"step {step}: {loss.item():.3f} strength {strength:.2f}")
    net.eval()
    with torch.no_grad():
        x, y = domain_batch(200, 2.0, device)
        print(f"target accuracy {(net(x, 0.0)[0].argmax(1) == y).float().mean().item():.2f}")


if __name__ == "__main__":
    main()
