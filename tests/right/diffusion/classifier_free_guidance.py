"""Class-conditional diffusion with dropped labels and guided sampling."""
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES = 3
NULL = NUM_CLASSES  # the index of "no label"
T = 25


class CondDenoiser(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.label = nn.Embedding(NUM_CLASSES + 1, 8)
        self.time = nn.Embedding(T, 8)
        self.net = nn.Sequential(nn.Linear(2 + 16, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2))

    def forward(self, x, t, y):
        return self.net(torch.cat([x, self.time(t), self.label(y)], 1))


def drop_labels(y, p):
    return torch.where(torch.rand(y.shape, device=y.device) < p, NULL, y)


def centers(device):
    return torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]], device=device)


def train(model, bar, device, steps=300):
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    c = centers(device)
    model.train()
    for i in range(steps):
        y = torch.randint(NUM_CLASSES, (96,), device=device)
        x0 = c[y] + 0.15 * torch.randn(96, 2, device=device)
        t = torch.randint(T, (96,), device=device)
        eps = torch.randn_like(x0)
        a = bar[t].unsqueeze(-1)
        pred = model(a.sqrt() * x0 + (1 - a).sqrt() * eps, t, drop_labels(y, 0.15))
        loss = F.mse_loss(pred, eps)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 100 == 0:
            print(f"train {i}: {loss.item():.3f}")


@torch.no_grad()
def guided_sample(model, betas, bar, y, scale):
    model.eval()
    x = torch.randn(y.size(0), 2, device=y.device)
    null = torch.full_like(y, NULL)
    for i in range(T - 1, -1, -1):
        t = torch.full_like(y, i)
        both = model(x.repeat(2, 1), t.repeat(2), torch.cat([y, null]))
        cond, uncond = both.chunk(2)
        eps = uncond + scale * (cond - uncond)
        x = (x - betas[i] / (1 - bar[i]).sqrt() * eps) / (1 - betas[i]).sqrt()
        if i > 0:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    betas = torch.linspace(1e-3, 0.3, T, device=device)
    bar = (1 - betas).cumprod(0)
    model = CondDenoiser().to(device)
    train(model, bar, device)
    y = torch.arange(NUM_CLASSES, device=device).repeat_interleave(50)
    for scale in (1.0, 2.0):
        x = guided_sample(model, betas, bar, y, scale)
        nearest = torch.cdist(x, centers(device)).argmin(dim=1)
        print(f"scale {scale}: {(nearest == y).float().mean().item():.2f} near their own center")


if __name__ == "__main__":
    main()
