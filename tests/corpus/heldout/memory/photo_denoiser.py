# target: run_epoch
# truth: The running PSNR adds up tensors that still hang on the autograd graph; the PSNR is not what backward() runs through, so the images it
#   saved are kept for every batch and memory grows by at least one batch of images per step until the epoch ends (out of memory on long epochs).
"""Residual denoising of photographs (DnCNN-like)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DnCNN(nn.Module):
    def __init__(self, width=16, depth=4):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        layers.append(nn.Conv2d(width, 3, 3, padding=1))
        self.net = nn.Sequential(*layers)

    def forward(self, noisy):
        return noisy - self.net(noisy)


def psnr(output, reference):
    """Peak signal-to-noise ratio in dB for images in [0, 1], mean over the batch."""
    mse = (output - reference).pow(2).flatten(1).mean(dim=1)
    return (-10 * torch.log10(mse + 1e-10)).mean()


def add_noise(clean, sigma=25 / 255):
    return clean + sigma * torch.randn_like(clean)


def run_epoch(model, clean_batches, optimizer):
    epoch_loss = 0.0
    epoch_psnr = 0.0
    n_batches = 0
    model.train()

    for clean in clean_batches:
        noisy = add_noise(clean)
        optimizer.zero_grad()
        restored = model(noisy)
        loss = F.l1_loss(restored, clean)
        loss.backward()
        optimizer.step()

        epoch_loss += loss.item()
        epoch_psnr += psnr(restored, clean)  # error: DG502
        n_batches += 1

    return epoch_loss / n_batches, float(epoch_psnr / n_batches)


def random_photos(n_batches, batch_size=4, size=128):
    for _ in range(n_batches):
        coarse = torch.rand(batch_size, 3, size // 16, size // 16)
        yield F.interpolate(coarse, size=size, mode="bilinear", align_corners=False)


if __name__ == "__main__":
    model = DnCNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        loss, quality = run_epoch(model, random_photos(4), optimizer)
        print(f"Epoch {epoch + 1}: loss {loss:.4f}, PSNR {quality:.2f} dB")
