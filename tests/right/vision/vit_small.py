"""A small Vision Transformer with a class token and learned positions on synthetic shapes."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchEmbed(nn.Module):
    def __init__(self, size=16, patch=4, chans=1, dim=32):
        super().__init__()
        self.num = (size // patch) ** 2
        self.proj = nn.Conv2d(chans, dim, kernel_size=patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads, drop=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, dropout=drop, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(drop), nn.Linear(2 * dim, dim))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, classes=3, dim=32, depth=2, heads=4):
        super().__init__()
        self.patches = PatchEmbed(dim=dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.empty(1, self.patches.num + 1, dim))
        nn.init.trunc_normal_(self.pos, std=0.02)
        self.blocks = nn.Sequential(*[EncoderBlock(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patches(x)
        cls = self.cls_token.expand(x.size(0), -1, -1)
        x = torch.cat([cls, x], dim=1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


def shapes(n, device):
    y = torch.randint(3, (n,), device=device)
    img = 0.2 * torch.randn(n, 1, 16, 16, device=device)
    img[y == 0, :, 4:12, 4:12] += 1
    img[y == 1, :, 7:9, :] += 1
    img[y == 2, :, :, 7:9] += 1
    return img, y


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ViT().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    for step in range(30):
        img, y = shapes(24, device)
        loss = F.cross_entropy(model(img), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step}: {loss.item():.3f}")
    model.eval()
    with torch.inference_mode():
        img, y = shapes(60, device)
        print("accuracy", (model(img).argmax(-1) == y).float().mean().item())
