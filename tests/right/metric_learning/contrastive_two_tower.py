"""A two-tower (CLIP-like) model with a symmetric loss, a learned clamped temperature and retrieval."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class TwoTower(nn.Module):
    def __init__(self, vocab=12, dim=24):
        super().__init__()
        self.image = nn.Sequential(nn.Flatten(), nn.Linear(36, 48), nn.GELU(), nn.Linear(48, dim))
        self.text = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def encode_image(self, x):
        return F.normalize(self.image(x), dim=-1)

    def encode_text(self, tokens):
        return F.normalize(self.text(tokens), dim=-1)

    def forward(self, x, tokens):
        scale = self.logit_scale.clamp(max=math.log(100)).exp()
        return scale * self.encode_image(x) @ self.encode_text(tokens).T


def symmetric_loss(logits):
    target = torch.arange(logits.size(0), device=logits.device)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def pairs(n):
    """A bright cell in a 6x6 image; its caption is the row word and the column word. Cells are distinct."""
    cell = torch.randperm(36, device=device)[:n]
    image = 0.1 * torch.randn(n, 1, 36, device=device)
    image.scatter_(2, cell.view(n, 1, 1), 2.0)
    row, col = torch.div(cell, 6, rounding_mode="trunc"), cell.remainder(6)
    return image.view(n, 1, 6, 6), torch.stack([row, 6 + col], dim=1)


def main():
    torch.manual_seed(0)
    model = TwoTower().to(device)
    scale_params = [model.logit_scale]
    others = [p for p in model.parameters() if p is not model.logit_scale]
    opt = torch.optim.AdamW([{"params": others, "weight_decay": 0.01}, {"params": scale_params, "weight_decay": 0.0}], lr=5e-3)
    for step in range(100):
        image, tokens = pairs(24)
        loss = symmetric_loss(model(image, tokens))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        image, tokens = pairs(36)
        logits = model(image, tokens)
        target = torch.arange(36, device=device)
        top3 = (logits.topk(3, dim=1).indices == target.unsqueeze(1)).any(dim=1)
    print(f"recall@1 {(logits.argmax(1) == target).float().mean().item():.2f}, recall@3 {top3.float().mean().item():.2f}")


if __name__ == "__main__":
    main()
