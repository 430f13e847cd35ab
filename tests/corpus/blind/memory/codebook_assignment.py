# target: main
# gpu-memory: 512MiB
# truth: The distances to the codebook are computed by broadcasting to (points, codes, dim), a 1 GiB intermediate (and another for its square), so a 512 MiB GPU runs out of memory at the subtraction.
"""Build a visual-word codebook with k-means on local descriptors."""
import torch


def load_descriptors(n: int = 8192, dim: int = 64) -> torch.Tensor:
    """Stand-in for the descriptors extracted from the image collection."""
    g = torch.Generator().manual_seed(5)
    centres = torch.randn(32, dim, generator=g)
    pick = torch.randint(0, 32, (n,), generator=g)
    return centres[pick] + 0.3 * torch.randn(n, dim, generator=g)


def init_codebook(points: torch.Tensor, k: int) -> torch.Tensor:
    choice = torch.randperm(len(points), device=points.device)[:k]
    return points[choice].clone()


def assign(points: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
    """Index of the nearest code for each point."""
    distances = (points.unsqueeze(1) - codebook.unsqueeze(0)).pow(2).sum(-1)  # error: DG507
    return distances.argmin(dim=1)


def update(points: torch.Tensor, codebook: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    sums = torch.zeros_like(codebook).index_add_(0, labels, points)
    counts = torch.bincount(labels, minlength=len(codebook)).unsqueeze(1)
    return torch.where(counts > 0, sums / counts.clamp_min(1), codebook)


def kmeans(points: torch.Tensor, k: int, iterations: int) -> torch.Tensor:
    codebook = init_codebook(points, k)
    for _ in range(iterations):
        codebook = update(points, codebook, assign(points, codebook))
    return codebook


def histogram(descriptors: torch.Tensor, codebook: torch.Tensor) -> torch.Tensor:
    """Normalised bag-of-words vector of one image."""
    words = assign(descriptors, codebook)
    counts = torch.bincount(words, minlength=len(codebook)).float()
    return counts / counts.sum()


def main(k: int = 512, iterations: int = 2) -> torch.Tensor:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    points = load_descriptors().to(device)
    codebook = kmeans(points, k, iterations)
    return histogram(points[:100], codebook)


if __name__ == "__main__":
    print(main().shape)
