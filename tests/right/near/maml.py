"""Learning to learn: an inner step by hand, through which the outer loss is differentiated."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))

    def forward(self, x):
        return self.net(x)


def adapt(model, params, x, y, lr=0.05, steps=2, second_order=True):
    for _ in range(steps):
        loss = F.mse_loss(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, list(params.values()), create_graph=second_order)
        params = {name: p - lr * g for (name, p), g in zip(params.items(), grads)}
    return params


def task():
    amplitude, phase = torch.rand(1, device=device) * 4 + 0.1, torch.rand(1, device=device) * 3
    x = torch.rand(20, 1, device=device) * 10 - 5
    return x, amplitude * torch.sin(x + phase)


def sample_gradients(model, x, y):
    """Return the norm of each sample's own gradient."""
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(params, x, y):
        return F.mse_loss(functional_call(model, params, (x[None],)), y[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    return torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)


def main(outer=3, tasks=2):
    torch.manual_seed(0)
    model = Wave().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(outer):
        total = 0.0
        for _ in range(tasks):
            x, y = task()
            params = adapt(model, dict(model.named_parameters()), x[:10], y[:10])
            total = total + F.mse_loss(functional_call(model, params, (x[10:],)), y[10:])
        optimizer.zero_grad()
        (total / tasks).backward()
        optimizer.step()
    x, y = task()
    before = dict(model.named_parameters())
    after = adapt(model, before, x[:10], y[:10], second_order=False)
    with torch.no_grad():
        gain = F.mse_loss(functional_call(model, before, (x,)), y) - F.mse_loss(functional_call(model, after, (x,)), y)
    return gain.item(), sample_gradients(model, x, y).max().item()


if __name__ == "__main__":
    print(main())
