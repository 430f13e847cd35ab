"""Contrastive training of paired image and text vectors."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ImageTextModel(nn.Module):
    def __init__(self, image_dim, text_dim, dim=24, max_scale=100.0):
        super().__init__()
        self.image = nn.Sequential(nn.Linear(image_dim, 48), nn.GELU(), nn.Linear(48, dim))
        self.text = nn.Sequential(nn.Linear(text_dim, 48), nn.GELU(), nn.Linear(48, dim))
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        self.max_scale = max_scale

    def forward(self, images, texts):
        a = F.normalize(self.image(images), dim=-1)
        b = F.normalize(self.text(texts), dim=-1)
        scale = min(math.exp(self.log_scale.item()), self.max_scale)
        return scale * a @ b.t()


def clip_loss(logits):
    target = torch.arange(len(logits), device=logits.device)
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


def paired(n, image_dim, text_dim, seed=0):
    g = torch.Generator().manual_seed(seed)
    shared = torch.randn(n, 6, generator=g)
    to_image = torch.randn(6, image_dim, generator=g)
    to_text = torch.randn(6, text_dim, generator=g)
    return shared @ to_image, shared @ to_text


def main():
    torch.manual_seed(0)
    images, texts = paired(64, 20, 12)
    model = ImageTextModel(20, 12)
    decay = [p for p in model.parameters() if p.dim() > 1]
    other = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}], lr=3e-3)
    for step in range(25):
        loss = clip_loss(model(images, texts))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f} scale {model.log_scale.exp().item():.2f}")


if __name__ == "__main__":
    main()
