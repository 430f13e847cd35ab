# target: train
# truth: update_codes puts attached encoder features into the EMA buffers, so the codebook carries the previous step's
#   graph; the commitment loss of the next step backpropagates into it and the second iteration fails in loss.backward()
#   with 'RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they
#   have already been freed). ...'
"""VQ-VAE with an exponential-moving-average codebook (van den Oord et al., appendix A.1)."""
import torch
import torch.nn.functional as F
from torch import nn


class EMAQuantizer(nn.Module):
    def __init__(self, n_codes=256, dim=32, decay=0.99, eps=1e-5):
        super().__init__()
        self.n_codes, self.dim, self.decay, self.eps = n_codes, dim, decay, eps
        codes = torch.randn(n_codes, dim)
        self.register_buffer("codes", codes)
        self.register_buffer("sizes", torch.ones(n_codes))
        self.register_buffer("sums", codes.clone())

    def nearest(self, flat):
        d2 = (
            flat.pow(2).sum(1, keepdim=True)
            - 2.0 * flat @ self.codes.t()
            + self.codes.pow(2).sum(1)
        )
        return d2.argmin(dim=1)

    def update_codes(self, flat, idx):
        one_hot = F.one_hot(idx, self.n_codes).to(flat.dtype)
        rate = 1.0 - self.decay
        self.sizes = self.decay * self.sizes + rate * one_hot.sum(dim=0)
        self.sums = self.decay * self.sums + rate * one_hot.t() @ flat  # error: DG108|DG113
        n = self.sizes.sum()
        smoothed = (self.sizes + self.eps) / (n + self.n_codes * self.eps) * n
        self.codes = self.sums / smoothed.unsqueeze(1)

    def forward(self, z):
        """z: (B, dim, H, W). Returns quantised features, commitment loss and code indices."""
        b, _, h, w = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, self.dim)
        idx = self.nearest(flat)
        q = self.codes[idx].view(b, h, w, self.dim).permute(0, 3, 1, 2)
        commit = F.mse_loss(z, q)
        if self.training:
            self.update_codes(flat, idx)
        return z + (q - z).detach(), commit, idx.view(b, h, w)


class VQVAE(nn.Module):
    def __init__(self, channels=3, dim=32, n_codes=256):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, dim, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(dim, dim, 4, 2, 1), nn.ReLU(), nn.Conv2d(dim, dim, 1),
        )
        self.quantizer = EMAQuantizer(n_codes, dim)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(dim, dim, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(dim, channels, 4, 2, 1),
        )

    def forward(self, x):
        q, commit, _ = self.quantizer(self.encoder(x))
        return self.decoder(q), commit


def train(model, loader, device, epochs=1, lr=2e-4, beta=0.25):
    model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for (x,) in loader:
            x = x.to(device)
            recon, commit = model(x)
            loss = F.mse_loss(recon, x) + beta * commit
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model
