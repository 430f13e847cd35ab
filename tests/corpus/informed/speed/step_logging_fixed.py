# target: script
"""Training of a denoiser; the mean loss of an epoch is logged."""

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, channels, 9, padding=4), nn.PReLU(), nn.Conv1d(channels, 1, 9, padding=4)
        )

    def forward(self, noisy):
        return noisy - self.net(noisy)


def train_epoch(model, loader, optimizer, device):
    model.train()
    running = torch.zeros((), device=device)
    for clean in loader:
        clean = clean.to(device, non_blocking=True)
        noisy = clean + 0.1 * torch.randn_like(clean)
        loss = nn.functional.l1_loss(model(noisy), clean)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running += loss.detach()
    return running.item() / len(loader)


def main(epochs=1):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Denoiser().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = [torch.randn(4, 1, 128) for _ in range(4)]
    for epoch in range(epochs):
        print(epoch, train_epoch(model, loader, optimizer, device))


if __name__ == "__main__":
    main()
