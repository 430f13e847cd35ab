"""Fit a line to noisy points with plain SGD, as a flat script."""
import torch
from torch import nn

SEED = 0
N = 256
STEPS = 200

torch.manual_seed(SEED)
dev = "cuda" if torch.cuda.is_available() else "cpu"

x = torch.rand(N, 1, device=dev) * 4 - 2
y = 1.7 * x - 0.4 + 0.1 * torch.randn(N, 1, device=dev)

model = nn.Linear(1, 1).to(dev)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for step in range(STEPS):
    pred = model(x)
    loss = criterion(pred, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print("step", step, "mse", round(loss.item(), 4))

with torch.no_grad():
    residual = y - model(x)
    ss_res = residual.square().sum()
    ss_tot = (y - y.mean()).square().sum()
    r2 = 1 - ss_res / ss_tot

slope, intercept = model.weight.item(), model.bias.item()
print(f"slope {slope:.3f} intercept {intercept:.3f} R2 {r2.item():.3f}")
assert abs(slope - 1.7) < 0.1
