"""Caption model: frozen vision tower, trainable bridge and decoder."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class VisionTower(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 4, stride=4), nn.GELU(), nn.Conv2d(width, width, 1))

    def forward(self, images):
        return self.net(images).flatten(2).transpose(1, 2)


class CaptionModel(nn.Module):
    def __init__(self, vocab=40, dim=32, width=24):
        super().__init__()
        self.vision = VisionTower(width).requires_grad_(False)
        self.bridge = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, dim))
        self.embed = nn.Embedding(vocab, dim)
        self.cross = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, images, tokens):
        with torch.no_grad():
            patches = self.vision(images)
            memory = self.bridge(patches)
        h, _ = self.rnn(self.embed(tokens))
        context, _ = self.cross(h, memory, memory, need_weights=False)
        return self.out(h + context)


def train(model, images, captions, steps=15):
    optimizer = torch.optim.Adam(
        (p for p in model.parameters() if p.requires_grad), lr=3e-3)
    for _ in range(steps):
        logits = model(images, captions[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), captions[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    images = torch.rand(16, 3, 16, 16)
    captions = torch.randint(0, 40, (16, 8))
    print(f"loss {train(CaptionModel(), images, captions):.4f}")
