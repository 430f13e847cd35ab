"""Logistic regression with LBFGS, whose closure clears, computes and returns the loss."""
import torch
from torch import nn
from torch.nn import functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(13)

features = torch.randn(300, 4, dtype=torch.float64, device=device)
true_w = torch.tensor([1.5, -1.0, 0.0, 0.7], dtype=torch.float64, device=device)
labels = torch.bernoulli(torch.sigmoid(features @ true_w))

model = nn.Linear(4, 1).double().to(device)
optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=20, line_search_fn="strong_wolfe")
L2 = 1e-3


def objective():
    logits = model(features).squeeze(1)
    return F.binary_cross_entropy_with_logits(logits, labels) + L2 * model.weight.square().sum()


def closure():
    optimizer.zero_grad()
    loss = objective()
    loss.backward()
    return loss


for outer in range(5):
    loss = optimizer.step(closure)
    print(f"outer {outer}: loss before the step {loss.item():.6f}")

grads = torch.autograd.grad(objective(), list(model.parameters()))
grad_norm = torch.stack([g.norm() for g in grads]).norm()
with torch.no_grad():
    final = objective()
    predicted = model(features).squeeze(1) > 0
    accuracy = (predicted == labels.bool()).double().mean()
print(f"final {final.item():.6f}  |grad| {grad_norm.item():.2e}  accuracy {accuracy.item():.3f}")
print("weights", [round(v, 2) for v in model.weight.detach().flatten().tolist()])
