import numpy as np
import torch
import torch.nn as nn


class Featurizer(nn.Module):
    def __init__(self, channels=3, dim=16):
        super().__init__()
        self.conv = nn.Conv2d(channels, dim, 3, stride=2, padding=1)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean(dim=(2, 3)))


@torch.no_grad()
def collect_statistics(model, images, chunk=8, feats=None):
    """Mean and covariance of the features of an image set."""
    feats = [] if feats is None else feats
    for part in images.split(chunk):
        feats.append(model(part))
    f = torch.cat(feats)
    mean = f.mean(dim=0)
    centred = f - mean
    return mean, centred.t() @ centred / (len(f) - 1)


def frechet_distance(mean1, cov1, mean2, cov2):
    diff = (mean1 - mean2).pow(2).sum().item()
    eig = np.linalg.eigvals((cov1 @ cov2).double().numpy())
    root = np.sqrt(np.maximum(eig.real, 0)).sum()
    return diff + cov1.trace().item() + cov2.trace().item() - 2 * root


def main():
    torch.manual_seed(0)
    model = Featurizer().eval()
    real = torch.rand(32, 3, 16, 16)
    fake = torch.rand(32, 3, 16, 16) * 0.5
    score = frechet_distance(*collect_statistics(model, real), *collect_statistics(model, fake))
    print(f"distance {score:.4f}")


if __name__ == "__main__":
    main()
