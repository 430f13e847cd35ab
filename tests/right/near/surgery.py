"""Two losses whose gradients are reconciled by hand: one graph, two backward passes, gradients written."""
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def flat(grads, params):
    return torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten() for g, p in zip(grads, params)])


def project(first, second):
    dot = first @ second
    if dot < 0:
        first = first - dot / second.square().sum().clamp(min=1e-12) * second
    return first


def main(steps=4):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    params = list(net.parameters())
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    cosines = []
    for _ in range(steps):
        x = torch.randn(12, 5, device=device)
        out = net(x)
        losses = F.mse_loss(out[:, 0], x.sum(1)), F.mse_loss(out[:, 1], -x.sum(1))
        grads = [flat(torch.autograd.grad(loss, params, retain_graph=i == 0), params) for i, loss in enumerate(losses)]
        cosines.append(F.cosine_similarity(*grads, dim=0))
        merged = project(grads[0], grads[1]) + project(grads[1], grads[0])
        optimizer.zero_grad()
        at = 0
        for p in params:
            p.grad = merged[at : at + p.numel()].view_as(p).clone()
            at += p.numel()
        optimizer.step()
    return torch.stack(cosines).mean().item()


if __name__ == "__main__":
    print(main())
