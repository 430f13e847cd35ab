"""Model-agnostic meta-learning: an inner step by torch.func.grad, an outer step through it."""
import math

import torch
from torch import nn
from torch.func import functional_call, grad, vmap


def sine_tasks(n, k, device):
    amp = torch.rand(n, 1, 1, device=device) * 4 + 0.5
    phase = torch.rand(n, 1, 1, device=device) * math.pi
    x = torch.rand(n, 2 * k, 1, device=device) * 10 - 5
    y = amp * torch.sin(x + phase)
    return x[:, :k], y[:, :k], x[:, k:], y[:, k:]


class MAML:
    def __init__(self, net, inner_lr=0.02):
        self.net, self.inner_lr = net, inner_lr

    def loss(self, params, x, y):
        return nn.functional.mse_loss(functional_call(self.net, params, (x,)), y)

    def task_loss(self, params, xs, ys, xq, yq):
        grads = grad(self.loss)(params, xs, ys)
        adapted = {k: p - self.inner_lr * grads[k] for k, p in params.items()}
        return self.loss(adapted, xq, yq)

    def meta_loss(self, batch):
        params = dict(self.net.named_parameters())
        losses = vmap(self.task_loss, in_dims=(None, 0, 0, 0, 0))(params, *batch)
        return losses.mean()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1)).to(device)
    learner = MAML(net)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for it in range(60):
        loss = learner.meta_loss(sine_tasks(16, 10, device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 20 == 0:
            print(f"{it}: query loss after adaption {loss.item():.3f}")
    with torch.no_grad():
        final = learner.meta_loss(sine_tasks(64, 10, device))
    print(f"held-out tasks: {final.item():.3f}")


if __name__ == "__main__":
    main()
