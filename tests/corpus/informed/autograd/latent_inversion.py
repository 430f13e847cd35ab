# target: script
# truth: The codes are a product, not a leaf: the optimizer refuses them with "can't optimize a non-leaf Tensor".
"""Inverts a frozen decoder: finds the latent codes of given samples."""

import argparse

import torch
import torch.nn as nn


def build_decoder(latent: int, size: int) -> nn.Module:
    decoder = nn.Sequential(nn.Linear(latent, 48), nn.Tanh(), nn.Linear(48, size))
    for parameter in decoder.parameters():
        parameter.requires_grad_(False)
    return decoder.eval()


def invert(decoder: nn.Module, samples: torch.Tensor, latent: int, steps: int, lr: float) -> torch.Tensor:
    device = samples.device
    codes = 0.1 * torch.randn(len(samples), latent, device=device, requires_grad=True)  # error: DG110
    optimizer = torch.optim.Adam([codes], lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        distance = (decoder(codes) - samples).pow(2).sum(dim=1)
        prior = 0.01 * codes.pow(2).sum(dim=1)
        (distance + prior).mean().backward()
        optimizer.step()
    return codes.detach()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--latent", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args()


if __name__ == "__main__":
    args = parse()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    decoder = build_decoder(args.latent, 30).to(device)
    found = invert(decoder, torch.randn(5, 30, device=device), args.latent, args.steps, args.lr)
    print(found.norm(dim=1))
