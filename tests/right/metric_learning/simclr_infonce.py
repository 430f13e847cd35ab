"""SimCLR on vectors: two noisy views, NT-Xent with the diagonal masked, then a linear probe."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def nt_xent(z1, z2, temperature=0.2):
    n = z1.size(0)
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.T / temperature
    eye = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    sim = sim.masked_fill(eye, float("-inf"))  # each row keeps 2n - 1 finite entries
    positive = torch.arange(2 * n, device=z.device).roll(n)
    return F.cross_entropy(sim, positive)


class Encoder(nn.Module):
    def __init__(self, n_in, dim=16):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(n_in, 48), nn.ReLU(), nn.Linear(48, dim))
        self.projector = nn.Sequential(nn.ReLU(), nn.Linear(dim, 16))

    def forward(self, x):
        h = self.backbone(x)
        return h, self.projector(h)


def augment(x):
    keep = torch.rand_like(x) > 0.2
    return x * keep + 0.1 * torch.randn_like(x)


def clusters(n, centers):
    y = torch.randint(centers.size(0), (n,), device=centers.device)
    return centers[y] + 0.5 * torch.randn(n, centers.size(1), device=centers.device), y


def linear_probe(encoder, centers, steps=40):
    encoder.eval()
    probe = nn.Linear(16, centers.size(0)).to(centers.device)
    opt = torch.optim.Adam(probe.parameters(), lr=5e-2)
    x, y = clusters(200, centers)
    with torch.no_grad():
        h, _ = encoder(x)
    for _ in range(steps):
        opt.zero_grad()
        F.cross_entropy(probe(h), y).backward()
        opt.step()
    x, y = clusters(200, centers)
    with torch.no_grad():
        return (probe(encoder(x)[0]).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    centers = torch.randn(5, 20, device=device)
    encoder = Encoder(20).to(device)
    opt = torch.optim.AdamW(encoder.parameters(), lr=3e-3)
    encoder.train()
    for step in range(60):
        x, _ = clusters(64, centers)
        _, z1 = encoder(augment(x))
        _, z2 = encoder(augment(x))
        loss = nt_xent(z1, z2)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.3f}")
    print(f"probe accuracy {linear_probe(encoder, centers):.3f}")


if __name__ == "__main__":
    main()
