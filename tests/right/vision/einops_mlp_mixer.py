"""An MLP-Mixer written with einops: patches by rearrange, mixing over tokens and over channels."""
import torch
from einops import rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from torch import nn


def mlp(dim, hidden):
    return nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.over_tokens = nn.Sequential(Rearrange("b t d -> b d t"), mlp(tokens, 2 * tokens), Rearrange("b d t -> b t d"))
        self.over_channels = mlp(dim, 2 * dim)

    def forward(self, x):
        x = x + self.over_tokens(self.norm1(x))
        return x + self.over_channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, size=12, patch=3, dim=24, depth=2, classes=4):
        super().__init__()
        self.patch = patch
        tokens = (size // patch) ** 2
        self.embed = nn.Linear(patch * patch, dim)
        self.blocks = nn.Sequential(*(MixerBlock(tokens, dim) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, img):
        x = rearrange(img, "b 1 (h p) (w q) -> b (h w) (p q)", p=self.patch, q=self.patch)
        x = self.norm(self.blocks(self.embed(x)))
        return self.head(reduce(x, "b t d -> b d", "mean"))


def gradients_of_light(n, device):
    """Brightness grows towards one of four sides."""
    y = torch.randint(4, (n,), device=device)
    ramp = repeat(torch.linspace(-1, 1, 12, device=device), "w -> h w", h=12)
    sides = torch.stack([ramp, ramp.flip(1), ramp.T, ramp.T.flip(0)])
    return rearrange(sides[y], "b h w -> b 1 h w") + 0.7 * torch.randn(n, 1, 12, 12, device=device), y


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Mixer().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for step in range(40):
        img, y = gradients_of_light(32, device)
        loss = nn.functional.cross_entropy(net(img), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step}: {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        img, y = gradients_of_light(100, device)
        print(f"accuracy {(net(img).argmax(1) == y).float().mean().item():.2f}")
