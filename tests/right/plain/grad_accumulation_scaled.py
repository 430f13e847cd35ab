"""Accumulate gradients over micro batches of one big batch, each loss scaled by its share."""
import torch

torch.manual_seed(42)
device = "cuda" if torch.cuda.is_available() else "cpu"


class Regressor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(5, 16)
        self.fc2 = torch.nn.Linear(16, 1)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x))).squeeze(-1)


def step_with_micro_batches(model, opt, x, y, micro):
    opt.zero_grad()
    total = 0.0
    for xs, ys in zip(x.split(micro), y.split(micro)):
        share = xs.size(0) / x.size(0)
        loss = torch.nn.functional.mse_loss(model(xs), ys) * share
        loss.backward()
        total = total + loss.detach()
    opt.step()
    return total


def reference_gradient(model, x, y):
    loss = torch.nn.functional.mse_loss(model(x), y)
    return torch.autograd.grad(loss, list(model.parameters()))


model = Regressor().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.05)

x0 = torch.randn(50, 5, device=device)
y0 = x0.sin().sum(dim=1)

# The accumulated gradient must equal that of the whole batch (50 is no multiple of 16).
expected = reference_gradient(model, x0, y0)
step_with_micro_batches(model, opt, x0, y0, micro=16)
for p, g in zip(model.parameters(), expected):
    assert torch.allclose(p.grad, g, atol=1e-5)

for it in range(100):
    x = torch.randn(50, 5, device=device)
    loss = step_with_micro_batches(model, opt, x, x.sin().sum(dim=1), micro=16)
    if it % 25 == 0:
        print(f"iter {it}: loss {loss.item():.3f}")
