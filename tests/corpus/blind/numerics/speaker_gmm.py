# target: DiagonalGMM.fit
# truth: The mixture density is computed as log(sum(exp(...))); with tens of feature dimensions the component densities underflow to 0 in float32, the log is -inf, the responsibilities become NaN and with them all parameters.
"""Universal background model: diagonal-covariance GMM trained by EM on acoustic features."""
import math
from typing import List, Tuple

import torch
from torch import Tensor


class DiagonalGMM:
    """log_prob of frames and EM updates; all tensors live on the device of the data."""

    def __init__(self, n_components: int = 16, min_var: float = 1e-3, seed: int = 0):
        self.k = n_components
        self.min_var = min_var
        self.generator = torch.Generator().manual_seed(seed)
        self.weights: Tensor = torch.empty(0)
        self.means: Tensor = torch.empty(0)
        self.vars: Tensor = torch.empty(0)

    def _initialise(self, x: Tensor) -> None:
        pick = torch.randperm(x.size(0), generator=self.generator)[: self.k].to(x.device)
        self.means = x[pick].clone()
        self.vars = x.var(dim=0).clamp(min=self.min_var).repeat(self.k, 1)
        self.weights = torch.full((self.k,), 1.0 / self.k, device=x.device)

    def _component_log_prob(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, K): log weight plus log density of each component."""
        precision = 1.0 / self.vars
        maha = (
            x.pow(2) @ precision.T
            - 2.0 * x @ (self.means * precision).T
            + (self.means.pow(2) * precision).sum(dim=1)
        )
        log_norm = self.vars.log().sum(dim=1) + x.size(1) * math.log(2 * math.pi)
        return self.weights.log() - 0.5 * (maha + log_norm)

    def log_prob(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        """Log-likelihood of every frame (N,) and the log-responsibilities (N, K)."""
        joint = self._component_log_prob(x)
        total = joint.exp().sum(dim=1).log()  # error: DG414
        return total, joint - total.unsqueeze(1)

    def _m_step(self, x: Tensor, resp: Tensor) -> None:
        mass = resp.sum(dim=0).clamp(min=1e-6)
        self.weights = mass / mass.sum()
        self.means = resp.T @ x / mass.unsqueeze(1)
        second = resp.T @ x.pow(2) / mass.unsqueeze(1)
        self.vars = (second - self.means.pow(2)).clamp(min=self.min_var)

    @torch.no_grad()
    def fit(self, x: Tensor, iters: int = 20, tol: float = 1e-4) -> List[float]:
        """EM on frames x (N, D), e.g. 60-dim MFCC + deltas, mean/variance normalised."""
        self._initialise(x)
        curve: List[float] = []
        for _ in range(iters):
            total, log_resp = self.log_prob(x)
            self._m_step(x, log_resp.exp())
            curve.append(total.mean().item())
            if len(curve) > 1 and abs(curve[-1] - curve[-2]) < tol:
                break
        return curve
