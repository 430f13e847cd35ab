# target: script
# truth: NumPy makes float64 features, the network is float32: "mat1 and mat2 must have the same dtype, but got Double
#   and Float". The features are to be converted where they become tensors.
"""Regression of concentrations from infrared spectra."""

import numpy as np
import torch
from torch import nn


def simulate(samples, channels, seed=0):
    generator = np.random.default_rng(seed)
    concentrations = generator.uniform(0, 1, (samples, 2))
    basis = generator.normal(size=(2, channels))
    return concentrations @ basis + 0.01 * generator.normal(size=(samples, channels)), concentrations


def standardize(spectra):
    return (spectra - spectra.mean(axis=1, keepdims=True)) / spectra.std(axis=1, keepdims=True)


class SpectraNet(nn.Module):
    def __init__(self, channels, outputs=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(channels, 64), nn.SiLU(), nn.Linear(64, outputs))

    def forward(self, spectra):
        return self.net(spectra)


def to_tensors(spectra, concentrations):
    inputs = torch.from_numpy(standardize(spectra))  # error: DG317
    targets = torch.tensor(concentrations, dtype=torch.float32)
    return inputs, targets


def fit(model, inputs, targets, epochs=20):
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    for _ in range(epochs):
        optimizer.step(closure)
    return closure().item()


if __name__ == "__main__":
    spectra, concentrations = simulate(32, 100)
    inputs, targets = to_tensors(spectra, concentrations)
    print(fit(SpectraNet(100), inputs, targets, epochs=3))
