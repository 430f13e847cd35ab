"""Learnable Gaussian blur in front of a small regression network."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def gaussian_kernel(log_sigma, size):
    pos = torch.arange(size, dtype=log_sigma.dtype, device=log_sigma.device) - (size - 1) / 2
    line = torch.exp(-0.5 * (pos / log_sigma.exp()) ** 2)
    kernel = line[:, None] * line[None, :]
    return kernel / kernel.sum()


class GaussianBlurStem(nn.Module):
    def __init__(self, size=7, sigma=1.5):
        super().__init__()
        self.size = size
        self.log_sigma = nn.Parameter(torch.tensor(sigma).log())
        self.kernel = gaussian_kernel(self.log_sigma, size)

    def forward(self, images):
        b, c, h, w = images.shape
        weight = self.kernel.expand(c, 1, -1, -1)
        return F.conv2d(images, weight, padding=self.size // 2, groups=c)


class BlurRegressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.blur = GaussianBlurStem()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.fc = nn.Linear(8, 1)

    def forward(self, x):
        h = F.gelu(self.conv(self.blur(x)))
        return self.fc(h.mean(dim=(2, 3))).squeeze(1)


def main():
    torch.manual_seed(0)
    model = BlurRegressor()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images = torch.rand(16, 1, 20, 20)
    target = images.flatten(1).std(dim=1)
    for step in range(20):
        optimizer.zero_grad()
        loss = F.mse_loss(model(images), target)
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(step, f"{loss.item():.5f}", f"sigma {model.blur.log_sigma.exp().item():.3f}")


if __name__ == "__main__":
    main()
