"""Stable forms of common losses compared with their naive forms in float64 and with extreme inputs."""
import math

import torch
import torch.nn.functional as F
from torch import Tensor


def log1mexp(x: Tensor) -> Tensor:
    """log(1 - exp(x)) for x < 0; both branches of `where` get safe inputs so that gradients stay finite."""
    near = x > -math.log(2)
    a = torch.where(near, x, torch.full_like(x, -1.0))
    b = torch.where(near, torch.full_like(x, -1.0), x)
    return torch.where(near, torch.log(-torch.expm1(a)), torch.log1p(-torch.exp(b)))


def logit_bce(logits: Tensor, target: Tensor) -> Tensor:
    return (F.softplus(logits) - logits * target).mean()


def weighted_logsumexp(x: Tensor, weight: Tensor, dim: int = -1) -> Tensor:
    """log sum w exp(x); weights may be zero, but not all of a row."""
    top = x.detach().amax(dim=dim, keepdim=True)
    return ((x - top).exp() * weight).sum(dim=dim).log() + top.squeeze(dim)


def gaussian_nll(mean: Tensor, log_var: Tensor, target: Tensor) -> Tensor:
    return 0.5 * (log_var + (target - mean).square() * torch.exp(-log_var) + math.log(2 * math.pi)).mean()


def safe_norm(x: Tensor, eps: float = 1e-12) -> Tensor:
    return (x.square().sum(dim=-1) + eps).sqrt()


def main() -> None:
    torch.manual_seed(0)
    x = torch.tensor([-1e-8, -0.1, -1.0, -30.0, -800.0], dtype=torch.float64, requires_grad=True)
    log1mexp(x).sum().backward()
    assert torch.isfinite(x.grad).all()

    logits = torch.tensor([-200.0, -1.0, 0.0, 3.0, 200.0])
    target = torch.tensor([0.0, 1.0, 0.5, 1.0, 1.0])
    torch.testing.assert_close(logit_bce(logits, target), F.binary_cross_entropy_with_logits(logits, target))

    big = torch.randn(4, 6) + 500.0
    torch.testing.assert_close(weighted_logsumexp(big, torch.ones(6)), torch.logsumexp(big, -1))
    w = torch.tensor([1.0, 0.0, 2.0, 0.5, 0.0, 1.0])
    naive = ((big.double() - 500).exp() * w).sum(-1).log() + 500
    torch.testing.assert_close(weighted_logsumexp(big, w).double(), naive, atol=1e-4, rtol=1e-6)

    mean, log_var, y = torch.randn(3, 8).unbind(0)
    dist = torch.distributions.Normal(mean, (0.5 * log_var).exp())
    torch.testing.assert_close(gaussian_nll(mean, log_var, y), -dist.log_prob(y).mean())

    zero = torch.zeros(2, 3, requires_grad=True)
    safe_norm(zero).sum().backward()
    assert torch.equal(zero.grad, torch.zeros(2, 3))
    print("all stable forms agree")


if __name__ == "__main__":
    main()
