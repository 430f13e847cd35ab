# target: train
# truth: The whole step stands under autocast, backward included; autocast is for the forward pass and the loss only.
"""Mixed-precision training of a contrastive encoder."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, features=24, width=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 48), nn.ReLU(), nn.Linear(48, width))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


def info_nce(left, right, temperature=0.1):
    logits = left @ right.t() / temperature
    return F.cross_entropy(logits, torch.arange(len(left), device=left.device))


def train(model, views, epochs, device):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for left, right in views:
            left, right = left.to(device), right.to(device)
            optimizer.zero_grad()
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = info_nce(model(left), model(right))
                loss.backward()  # error: DG707
            optimizer.step()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    views = [(torch.randn(16, 24), torch.randn(16, 24)) for _ in range(2)]
    train(Encoder().to(device), views, 2, device)


if __name__ == "__main__":
    main()
