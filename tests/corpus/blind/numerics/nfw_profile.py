# target: fit
# source: https://github.com/Ciela-Institute/caustics/pull/83
# truth: torch.where picks the right branch forward, but the branch not taken holds sqrt of a negative number; its backward gives
#   NaN times zero = NaN, so the gradient of the scale radius is NaN at once and the fit returns NaN.
"""Fit a lens halo: projected NFW surface density from noisy radial samples."""
import torch


def _shape_inner(x):
    root = torch.sqrt(1 - x ** 2)
    return torch.atanh(torch.sqrt((1 - x) / (1 + x))) * 2 / root


def _shape_outer(x):
    root = torch.sqrt(x ** 2 - 1)
    return torch.atan(torch.sqrt((x - 1) / (1 + x))) * 2 / root


def _f(x):
    return torch.where(x < 1, 1 - _shape_inner(x), 1 - _shape_outer(x))  # error: DG406|DG410


def convergence(r, scale_radius, kappa_s):
    """Dimensionless surface density at projected radius ``r``."""
    x = r / scale_radius
    return 2 * kappa_s * _f(x) / (x ** 2 - 1)


class Halo(torch.nn.Module):
    def __init__(self, scale_radius=1.5, kappa_s=0.5):
        super().__init__()
        self.log_rs = torch.nn.Parameter(torch.tensor(float(scale_radius)).log())
        self.log_ks = torch.nn.Parameter(torch.tensor(float(kappa_s)).log())

    @property
    def params(self):
        return self.log_rs.exp(), self.log_ks.exp()

    def forward(self, r):
        return convergence(r, *self.params)


def mock_observation(n=120, true_rs=0.83, true_ks=0.9, sigma=0.01, seed=42):
    gen = torch.Generator().manual_seed(seed)
    r = 0.1 + 3.0 * torch.rand(n, generator=gen)
    kappa = convergence(r, torch.tensor(true_rs), torch.tensor(true_ks))
    return r, kappa * (1 + sigma * torch.randn(n, generator=gen))


def relative_chi2(model, data):
    return torch.mean(((model - data) / data) ** 2)


def fit(steps=300, lr=0.03, verbose=True):
    r, data = mock_observation()
    halo = Halo()
    opt = torch.optim.Adam(halo.parameters(), lr=lr)
    for step in range(steps):
        chi2 = relative_chi2(halo(r), data)
        opt.zero_grad()
        chi2.backward()
        opt.step()
        if verbose and step % 60 == 0:
            rs, ks = halo.params
            print(f"step {step:4d}  chi2 {chi2.item():.5f}  r_s {rs.item():.3f}  kappa_s {ks.item():.3f}")
    return tuple(p.item() for p in halo.params)


if __name__ == "__main__":
    print("best fit (true 0.83, 0.9):", fit())
