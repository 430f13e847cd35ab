"""Streaming covariance (Welford by chunks), shrinkage, whitening by eigh and Mahalanobis scores."""
import torch


class StreamingCovariance:
    """Merges the moments of chunks in float64, so the order and size of chunks do not matter."""

    def __init__(self, dim, device):
        self.n = 0
        self.mean = torch.zeros(dim, dtype=torch.float64, device=device)
        self.m2 = torch.zeros(dim, dim, dtype=torch.float64, device=device)

    @torch.no_grad()
    def update(self, x):
        x = x.double()
        n, mean = x.size(0), x.mean(dim=0)
        if n == 0:
            return self
        centered = x - mean
        delta = mean - self.mean
        total = self.n + n
        self.m2 += centered.T @ centered + torch.outer(delta, delta) * (self.n * n / total)
        self.mean += delta * (n / total)
        self.n = total
        return self

    def covariance(self):
        if self.n < 2:
            raise ValueError("a covariance needs two rows")
        return self.m2 / (self.n - 1)


def shrink(cov, amount=0.05):
    dim = cov.size(0)
    target = cov.trace() / dim * torch.eye(dim, dtype=cov.dtype, device=cov.device)
    return torch.lerp(cov, target, amount)


def whitening_matrix(cov, eps=1e-8):
    values, vectors = torch.linalg.eigh(cov)
    return vectors * values.clamp(min=eps).rsqrt() @ vectors.T


def mahalanobis(x, mean, cov):
    factor = torch.linalg.cholesky(cov)
    z = torch.linalg.solve_triangular(factor, (x.double() - mean).T, upper=False)
    return z.square().sum(dim=0).sqrt()


def main():
    g = torch.Generator().manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    mix = torch.randn(5, 5, generator=g)
    data = (torch.randn(1003, 5, generator=g) @ mix + 3).to(device)
    stream = StreamingCovariance(5, device)
    for chunk in data.split(100):
        stream.update(chunk)
    torch.testing.assert_close(stream.covariance(), torch.cov(data.double().T))

    w = whitening_matrix(stream.covariance())
    white = (data.double() - stream.mean) @ w
    torch.testing.assert_close(torch.cov(white.T), torch.eye(5, dtype=torch.float64, device=device), atol=1e-6, rtol=0)

    scores = mahalanobis(data, stream.mean, shrink(stream.covariance()))
    outlier = mahalanobis(data[:1] + 30, stream.mean, shrink(stream.covariance()))
    print(f"median score {scores.median().item():.2f}, outlier {outlier.item():.2f}")


if __name__ == "__main__":
    main()
