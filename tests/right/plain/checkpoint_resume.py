"""Save a full training state to a temporary folder, resume from it and get the same weights."""
import tempfile
from pathlib import Path

import torch
from torch import nn


def new_state(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
    return model, optimizer, scheduler


def save_checkpoint(path: Path, epoch, model, optimizer, scheduler, data_rng):
    torch.save(
        {
            "epoch": epoch,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "data_rng": data_rng.get_state(),
        },
        path,
    )


def load_checkpoint(path: Path, model, optimizer, scheduler, data_rng, device):
    ckpt = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optimizer"])
    scheduler.load_state_dict(ckpt["scheduler"])
    data_rng.set_state(ckpt["data_rng"].cpu())
    return ckpt["epoch"] + 1


def train(model, optimizer, scheduler, data_rng, first, last, device, checkpoint=None):
    model.train()
    for epoch in range(first, last):
        for _ in range(4):
            x = torch.randn(16, 4, generator=data_rng).to(device)
            target = x.prod(dim=1, keepdim=True)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), target).backward()
            optimizer.step()
        scheduler.step()
        if checkpoint is not None:
            save_checkpoint(checkpoint, epoch, model, optimizer, scheduler, data_rng)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    whole = new_state(device)
    train(*whole, torch.Generator().manual_seed(9), 0, 12, device)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        part = new_state(device)
        train(*part, torch.Generator().manual_seed(9), 0, 6, device, checkpoint=path)
        resumed, rng = new_state(device), torch.Generator()
        start = load_checkpoint(path, *resumed, rng, device)
        train(*resumed, rng, start, 12, device)

    for a, b in zip(whole[0].parameters(), resumed[0].parameters()):
        torch.testing.assert_close(a, b)
    print("resumed run equals the uninterrupted one; lr", whole[2].get_last_lr())


if __name__ == "__main__":
    main()
