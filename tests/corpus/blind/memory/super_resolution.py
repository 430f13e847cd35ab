# target: train_epoch
# truth: epoch_psnr adds up tensors that still carry their graph, so the difference image saved for every step's PSNR is kept until the end of the epoch; memory grows with the number of batches until it runs out.
"""Train a small ESPCN super-resolution network."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ESPCN(nn.Module):
    def __init__(self, scale: int = 2, channels: int = 3):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2), nn.Tanh(),
            nn.Conv2d(32, 16, 3, padding=1), nn.Tanh(),
            nn.Conv2d(16, channels * scale**2, 3, padding=1),
        )
        self.shuffle = nn.PixelShuffle(scale)

    def forward(self, lr_image):
        return torch.sigmoid(self.shuffle(self.body(lr_image)))


def psnr(sr, hr):
    mse = ((sr - hr) ** 2).mean()
    return -10.0 * torch.log10(mse)


def patch_loader(n_batches, batch_size=4, patch=96, scale=2):
    """Random high-resolution patches and their downscaled versions."""
    for _ in range(n_batches):
        hr = torch.rand(batch_size, 3, patch, patch)
        lr = F.interpolate(hr, scale_factor=1 / scale, mode="bicubic", align_corners=False)
        yield lr.clamp(0, 1), hr


def train_epoch(model: ESPCN, optimizer: torch.optim.Optimizer, n_batches: int = 100) -> dict:
    model.train()
    epoch_loss, epoch_psnr = 0.0, 0.0
    for lr, hr in patch_loader(n_batches):
        sr = model(lr)
        loss = F.l1_loss(sr, hr)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
        epoch_psnr += psnr(sr, hr)  # error: DG502
    return {"loss": epoch_loss / n_batches, "psnr": epoch_psnr / n_batches}


def main():
    torch.manual_seed(0)
    model = ESPCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        stats = train_epoch(model, optimizer)
        print(f"epoch {epoch}: L1 {stats['loss']:.4f} PSNR {stats['psnr']:.2f} dB")


if __name__ == "__main__":
    main()
