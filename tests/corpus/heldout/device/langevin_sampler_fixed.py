# target: sample_posterior
"""Metropolis adjusted Langevin sampling of a Bayesian logistic regression."""
import torch


class Posterior:
    def __init__(self, x, y, prior_scale=2.0):
        self.x, self.y = x, y
        self.precision = 1.0 / prior_scale**2

    def log_density(self, w):
        logit = w @ self.x.T
        fit = (self.y * logit - torch.nn.functional.softplus(logit)).sum(-1)
        return fit - 0.5 * self.precision * w.square().sum(-1)

    def score(self, w):
        residual = self.y - torch.sigmoid(w @ self.x.T)
        return residual @ self.x - self.precision * w


class Langevin:
    def __init__(self, posterior, chains, dim, step, device, seed):
        self.posterior = posterior
        self.step = step
        self.device = torch.device(device)
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        self.state = torch.zeros(chains, dim, device=self.device)
        self.accepted = []

    def noise(self, *shape):
        return torch.randn(*shape, device=self.device, generator=self.generator)

    def log_transition(self, to, start):
        mean = start + self.step * self.posterior.score(start)
        return -(to - mean).square().sum(-1) / (4 * self.step)

    def advance(self):
        w = self.state
        mean = w + self.step * self.posterior.score(w)
        proposal = mean + (2 * self.step) ** 0.5 * self.noise(*w.shape)
        log_ratio = (
            self.posterior.log_density(proposal) - self.posterior.log_density(w)
            + self.log_transition(w, proposal) - self.log_transition(proposal, w)
        )
        u = torch.rand(len(w), device=self.device, generator=self.generator)
        accept = u.log() < log_ratio
        self.state = torch.where(accept[:, None], proposal, w)
        self.accepted.append(accept.float().mean())


def patients(n, dim, device):
    g = torch.Generator().manual_seed(7)
    x = torch.randn(n, dim, generator=g)
    w = torch.linspace(-1.5, 1.5, dim)
    y = (torch.rand(n, generator=g) < torch.sigmoid(x @ w)).float()
    return x.to(device), y.to(device)


def sample_posterior(draws=300, warmup=100, chains=8, dim=6, seed=0):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = patients(200, dim, device)
    sampler = Langevin(Posterior(x, y), chains, dim, 0.01, device, seed)
    kept = []
    for i in range(warmup + draws):
        sampler.advance()
        if i >= warmup:
            kept.append(sampler.state)
    kept = torch.stack(kept)
    rate = torch.stack(sampler.accepted).mean().item()
    return kept.mean((0, 1)).cpu(), rate


if __name__ == "__main__":
    print(sample_posterior())
