import numpy as np
import torch
import torch.nn as nn


class PointNetRegressor(nn.Module):
    """Predicts the volume of a point cloud's bounding ellipsoid."""

    def __init__(self, width=32):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.out = nn.Sequential(nn.ReLU(), nn.Linear(width, 1))

    def forward(self, clouds):
        return self.out(self.point(clouds).amax(dim=1)).squeeze(-1)


def make_clouds(n, points=48, seed=0):
    rng = np.random.default_rng(seed)
    radii = rng.uniform(0.5, 2.0, size=(n, 1, 3))
    dirs = rng.normal(size=(n, points, 3))
    dirs /= np.linalg.norm(dirs, axis=-1, keepdims=True)
    clouds = torch.from_numpy((dirs * radii).astype(np.float32))
    return clouds, torch.from_numpy(radii.prod(axis=(1, 2)).astype(np.float32))


def accumulate(model, clouds, target, micro):
    """Leaves the gradient of the mean squared error over the batch in .grad."""
    n = len(clouds)
    total = 0.0
    for i in range((n + micro - 1) // micro):
        part = slice(i * micro, (i + 1) * micro)
        error = (model(clouds[part]) - target[part]).pow(2).sum() / n
        error.backward()
        total += error.item()
    return total


def fit(model, clouds, target, batch=50, micro=16, epochs=3):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        order = torch.randperm(len(clouds))
        for idx in order.split(batch):
            optimizer.zero_grad()
            loss = accumulate(model, clouds[idx], target[idx], micro)
            optimizer.step()
        print(f"epoch {epoch}: mse {loss:.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(PointNetRegressor(), *make_clouds(200))
