import math

import torch


def component_log_prob(x, means, log_scale):
    """log N(x | mean_k, scale_k) for x (N, D) -> (N, K)."""
    z = (x[:, None, :] - means[None]) / log_scale.exp()[None]
    return -0.5 * (z.pow(2) + math.log(2 * math.pi)).sum(-1) - log_scale.sum(-1)


def mixture_responsibilities(x, means, log_scale, log_weight):
    """Posterior over the components for every sample, (N, K)."""
    joint = component_log_prob(x, means, log_scale) + log_weight
    return (joint - torch.logsumexp(joint, dim=0, keepdim=True)).exp()


def m_step(x, resp):
    mass = resp.sum(0).clamp(min=1e-6)
    means = resp.t() @ x / mass[:, None]
    var = resp.t() @ x.pow(2) / mass[:, None] - means.pow(2)
    return means, 0.5 * var.clamp(min=1e-4).log(), (mass / mass.sum()).log()


def main():
    torch.manual_seed(2)
    centres = torch.tensor([[-2.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    x = (centres[:, None] + 0.4 * torch.randn(3, 50, 2)).reshape(-1, 2)
    means = x[torch.randperm(len(x))[:3]]
    log_scale = torch.zeros(3, 2)
    log_weight = torch.full((3,), -math.log(3))
    for it in range(15):
        resp = mixture_responsibilities(x, means, log_scale, log_weight)
        means, log_scale, log_weight = m_step(x, resp)
    print(means)
    print(mixture_responsibilities(x[:5], means, log_scale, log_weight))


if __name__ == "__main__":
    main()
