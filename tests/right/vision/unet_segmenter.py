"""A U-Net built by loops over widths, with skip connections popped in reverse order."""
import torch
from torch import nn
from torch.nn import functional as F


class DoubleConv(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(
            nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
            nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, in_ch=1, out_ch=2, widths=(6, 12)):
        super().__init__()
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        c = in_ch
        for w in widths:
            self.downs.append(DoubleConv(c, w))
            c = w
        self.bottleneck = DoubleConv(c, 2 * c)
        c = 2 * c
        for w in reversed(widths):
            self.ups.append(nn.ModuleDict({"up": nn.ConvTranspose2d(c, w, 2, stride=2), "conv": DoubleConv(2 * w, w)}))
            c = w
        self.final = nn.Conv2d(c, out_ch, 1)

    def forward(self, x):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottleneck(x)
        for stage in self.ups:
            skip = skips.pop()
            x = stage["up"](x)
            x = stage["conv"](torch.cat([skip, x], dim=1))
        return self.final(x)


def checker(n, device):
    cell = torch.randint(2, (n, 1, 4, 4), device=device).float()
    mask = F.interpolate(cell, scale_factor=4, mode="nearest")
    return mask + 0.3 * torch.randn_like(mask), mask.squeeze(1).long()


def run():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = UNet().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    loss_fn = nn.CrossEntropyLoss()
    net.train()
    for i in range(20):
        x, y = checker(6, device)
        optimizer.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        optimizer.step()
        if i % 5 == 0:
            print(f"iter {i} loss {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        x, y = checker(8, device)
        print(f"pixel accuracy {(net(x).argmax(1) == y).float().mean().item():.3f}")


if __name__ == "__main__":
    run()
