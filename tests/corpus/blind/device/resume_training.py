# target: script
# truth: On resume the optimizer state is loaded while the parameters are still on the CPU and load_state_dict puts the
#   moments there; model.to(device) then moves only the parameters, and the first step on a GPU fails: "Expected all
#   tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
"""Denoising autoencoder for sensor windows; training can be stopped and taken up again."""
import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Denoiser(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.down = nn.Sequential(nn.Conv1d(1, width, 5, stride=2, padding=2), nn.ReLU())
        self.mid = nn.Sequential(nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU())
        self.up = nn.ConvTranspose1d(width, 1, 4, stride=2, padding=1)

    def forward(self, x):
        return self.up(self.mid(self.down(x)))


def save_checkpoint(path, model, optimizer, scheduler, epoch):
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "epoch": epoch,
        },
        path,
    )


def load_checkpoint(path, model, optimizer, scheduler) -> int:
    """Restore everything in place; returns the epoch to go on with."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    return state["epoch"] + 1


def build(args, device):
    model = Denoiser(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
    first = 0
    if os.path.exists(args.checkpoint):
        first = load_checkpoint(args.checkpoint, model, optimizer, scheduler)
    model.to(device)  # error: DG211
    return model, optimizer, scheduler, first


def train_epoch(model, loader, optimizer, device, noise):
    model.train()
    total = torch.zeros((), device=device)
    for (clean,) in loader:
        clean = clean.to(device)
        loss = F.mse_loss(model(clean + noise * torch.randn_like(clean)), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total / len(loader)


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--checkpoint", default="denoiser.pt")
    ap.add_argument("--width", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args(argv)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    t = torch.linspace(0, 12, 128)
    windows = torch.sin(t * torch.rand(256, 1, 1) * 3 + torch.rand(256, 1, 1) * 6)
    loader = DataLoader(TensorDataset(windows), batch_size=32, shuffle=True)
    model, optimizer, scheduler, first = build(args, device)
    for epoch in range(first, args.epochs):
        loss = train_epoch(model, loader, optimizer, device, noise=0.3)
        scheduler.step()
        print(f"epoch {epoch} mse {loss.item():.4f}")
        save_checkpoint(args.checkpoint, model, optimizer, scheduler, epoch)


if __name__ == "__main__":
    main()
