# target: script
# gpu-memory: 24GiB
"""Build a visual vocabulary: k-means over patch descriptors."""
import torch

N_POINTS, DIM, K = 60_000, 384, 512


def synthetic_descriptors(n: int, dim: int, device: torch.device) -> torch.Tensor:
    """Stand-in for ViT patch descriptors: noisy points around a few thousand prototypes."""
    prototypes = torch.randn(2000, dim, device=device)
    which = torch.randint(0, prototypes.size(0), (n,), device=device)
    return prototypes[which] + 0.3 * torch.randn(n, dim, device=device)


def squared_distances(x: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """(N, D), (K, D) -> (N, K)"""
    return torch.cdist(x, centers).pow(2)


class KMeans:
    def __init__(self, k: int, iters: int = 4):
        self.k = k
        self.iters = iters
        self.centers = None
        self.inertia = float("inf")

    def fit(self, x: torch.Tensor) -> "KMeans":
        self.centers = x[torch.randperm(x.size(0), device=x.device)[: self.k]].clone()
        for _ in range(self.iters):
            dist, label = squared_distances(x, self.centers).min(dim=1)
            self.inertia = dist.mean().item()
            sums = torch.zeros_like(self.centers).index_add_(0, label, x)
            counts = torch.bincount(label, minlength=self.k).unsqueeze(1)
            # empty clusters keep their old center
            self.centers = torch.where(counts > 0, sums / counts.clamp(min=1), self.centers)
        return self

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return squared_distances(x, self.centers).argmin(dim=1)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = synthetic_descriptors(N_POINTS, DIM, device)
    with torch.no_grad():
        km = KMeans(K).fit(x)
        words = km.predict(x[:1000])
    histogram = torch.bincount(words, minlength=K)
    print(f"inertia {km.inertia:.2f}, words used by the first 1000 patches: {(histogram > 0).sum().item()}")


if __name__ == "__main__":
    main()
