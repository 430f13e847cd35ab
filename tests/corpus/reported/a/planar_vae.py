# source: https://github.com/wohlert/semi-supervised-pytorch/issues/21
# target: VariationalAutoencoder._kld
# truth: log_det is already one number per sample; python's sum() adds it up over the batch, and the scalar is broadcast
#   to every sample: each KL is off by the others' log determinants and grows with the batch size, silently
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def log_standard_gaussian(x):
    return torch.sum(-0.5 * math.log(2 * math.pi) - x**2 / 2, dim=-1)


def log_gaussian(x, mu, log_var):
    log_pdf = -0.5 * math.log(2 * math.pi) - log_var / 2 - (x - mu) ** 2 / (2 * torch.exp(log_var))
    return torch.sum(log_pdf, dim=-1)


class PlanarFlow(nn.Module):
    def __init__(self, in_features):
        super().__init__()
        self.u = nn.Parameter(torch.randn(in_features) * 0.1)
        self.w = nn.Parameter(torch.randn(in_features) * 0.1)
        self.b = nn.Parameter(torch.zeros(1))

    def forward(self, z):
        uw = torch.dot(self.u, self.w)
        u_hat = self.u + (F.softplus(uw) - 1 - uw) * self.w / (self.w.square().sum() + 1e-8)
        zwb = z @ self.w + self.b
        f_z = z + u_hat * torch.tanh(zwb).unsqueeze(1)
        psi = (1 - torch.tanh(zwb) ** 2).unsqueeze(1) * self.w
        log_det = torch.log(torch.abs(1 + psi @ u_hat) + 1e-8)
        return f_z, log_det


class NormalizingFlows(nn.Module):
    def __init__(self, in_features, n_flows=4):
        super().__init__()
        self.flows = nn.ModuleList([PlanarFlow(in_features) for _ in range(n_flows)])

    def forward(self, z):
        log_det = z.new_zeros(z.size(0))
        for flow in self.flows:
            z, step = flow(z)
            log_det = log_det + step
        return z, log_det


class Encoder(nn.Module):
    def __init__(self, x_dim, h_dim, z_dim):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(x_dim, h_dim), nn.ReLU(), nn.Linear(h_dim, h_dim), nn.ReLU())
        self.mu = nn.Linear(h_dim, z_dim)
        self.log_var = nn.Linear(h_dim, z_dim)

    def forward(self, x):
        h = self.hidden(x)
        mu, log_var = self.mu(h), F.softplus(self.log_var(h))
        return mu + torch.exp(0.5 * log_var) * torch.randn_like(mu), mu, log_var


class VariationalAutoencoder(nn.Module):
    def __init__(self, x_dim, z_dim, h_dim):
        super().__init__()
        self.flow = None
        self.encoder = Encoder(x_dim, h_dim, z_dim)
        self.decoder = nn.Sequential(nn.Linear(z_dim, h_dim), nn.ReLU(), nn.Linear(h_dim, x_dim))
        self.kl_divergence = None

    def add_flow(self, flow):
        self.flow = flow

    def _kld(self, z, q_param):
        mu, log_var = q_param
        if self.flow is not None:
            f_z, log_det = self.flow(z)
            qz = log_gaussian(z, mu, log_var) - sum(log_det)  # culprit
            z = f_z
        else:
            qz = log_gaussian(z, mu, log_var)
        return z, qz - log_standard_gaussian(z)

    def forward(self, x):
        z, mu, log_var = self.encoder(x)
        z, self.kl_divergence = self._kld(z, (mu, log_var))
        return self.decoder(z)


def train(args):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = VariationalAutoencoder(args.x_dim, args.z_dim, 64)
    model.add_flow(NormalizingFlows(args.z_dim, args.flows))
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    protos = (torch.rand(6, args.x_dim, device=device) > 0.5).float()
    for step in range(args.steps):
        x = protos[torch.randint(0, 6, (args.batch_size,), device=device)]
        logits = model(x)
        likelihood = -F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1)
        elbo = likelihood - model.kl_divergence
        loss = -elbo.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} -elbo {loss.item():.3f} kl {model.kl_divergence.mean().item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--x-dim", type=int, default=32)
    parser.add_argument("--z-dim", type=int, default=4)
    parser.add_argument("--flows", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=101)
    train(parser.parse_args())
