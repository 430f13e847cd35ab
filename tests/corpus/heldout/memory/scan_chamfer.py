# target: compare_scans
# gpu-memory: 512MiB
# truth: nearest forms the (B, N, M, 3) tensor of differences for all pairs (about 600 MB, and the square as much again) before it reduces; CUDA out of memory on a 512 MiB device, a peak of more than 1 GB on the CPU.
"""Distance between laser scans of a part and its nominal surface."""
import math

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def nominal_surface(batch, points, generator):
    uv = torch.rand(batch, points, 2, generator=generator)
    theta, height = 2 * math.pi * uv[..., 0], uv[..., 1]
    radius = 1 + 0.1 * torch.cos(6 * theta)
    return torch.stack([radius * theta.cos(), radius * theta.sin(), height], dim=-1)


def scan_of(surface, noise, generator):
    scan = surface + noise * torch.randn(surface.shape, generator=generator)
    order = torch.randperm(scan.shape[1], generator=generator)
    return scan[:, order]


def nearest(a, b):
    """Distance from each point of a (B, N, 3) to the nearest of b (B, M, 3), and back."""
    distance = (a[:, :, None] - b[:, None]).pow(2).sum(-1).sqrt()  # error: DG507
    return distance.amin(dim=2), distance.amin(dim=1)


def register(scan, surface):
    """Shift the scan to the centre of the surface."""
    centre_a, centre_b = scan.mean(1, keepdim=True), surface.mean(1, keepdim=True)
    return scan - centre_a + centre_b


class ScanReport:
    def __init__(self, tolerance):
        self.tolerance = tolerance
        self.rows = []

    def add(self, forward, backward):
        for f, b in zip(forward, backward):
            self.rows.append({
                "chamfer": (f.mean() + b.mean()).item(),
                "hausdorff": torch.maximum(f.max(), b.max()).item(),
                "outside": (f > self.tolerance).float().mean().item(),
            })


@torch.no_grad()
def compare_scans(parts=3, points=4096, noise=0.01, seed=0):
    g = torch.Generator().manual_seed(seed)
    surface = nominal_surface(parts, points, g)
    scan = scan_of(surface, noise, g)
    report = ScanReport(tolerance=3 * noise)
    scan, surface = scan.to(DEVICE), surface.to(DEVICE)
    report.add(*nearest(register(scan, surface), surface))
    return report.rows


if __name__ == "__main__":
    for row in compare_scans():
        print({k: round(v, 4) for k, v in row.items()})
