# target: script
# truth: The checkpoint holds the argparse Namespace of the run; torch.load defaults to weights_only=True since PyTorch 2.6 and refuses it:
#   UnpicklingError "Weights only load failed ... Unsupported global: GLOBAL argparse.Namespace".
"""Training with checkpoints that can be resumed (super-resolution toy)."""
import argparse
import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F


class SRNet(nn.Module):
    def __init__(self, channels, scale=2):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, channels, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(channels, 3 * scale**2, 3, padding=1),
            nn.PixelShuffle(scale),
        )

    def forward(self, x):
        up = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        return up + self.body(x)


def save_checkpoint(path, model, optimizer, step, args):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "args": args}, path)


def load_checkpoint(path, model, optimizer):
    ckpt = torch.load(path, map_location="cpu")  # error: DG907|DG805
    model.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optimizer"])
    return ckpt["step"], ckpt["args"]


def train(model, optimizer, start, stop, batch_size):
    for step in range(start, stop):
        high = torch.rand(batch_size, 3, 32, 32)
        low = F.avg_pool2d(high, 2)
        loss = F.l1_loss(model(low), high)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def parse_args(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args(argv)


def main():
    args = parse_args([])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        model = SRNet(args.channels)
        optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
        train(model, optimizer, 0, 10, args.batch_size)
        save_checkpoint(path, model, optimizer, 10, args)

        # a second run takes over
        model = SRNet(args.channels)
        optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
        step, old_args = load_checkpoint(path, model, optimizer)
        print("resumed at", step, old_args)
        print("loss", train(model, optimizer, step, 20, args.batch_size))


if __name__ == "__main__":
    main()
