"""A tiny U-Net for binary masks, its BCE weighted near boundaries found by pooling."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def boundary_weight(mask, extra=4.0):
    """mask (N, 1, H, W) of zeros and ones; pixels where dilation and erosion differ weigh more."""
    dilated = F.max_pool2d(mask, 3, stride=1, padding=1)
    eroded = -F.max_pool2d(-mask, 3, stride=1, padding=1)
    return 1 + extra * (dilated - eroded)


def conv_block(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.ReLU(inplace=True),
    )


class MiniUNet(nn.Module):
    def __init__(self, base=8):
        super().__init__()
        self.enc1, self.enc2 = conv_block(1, base), conv_block(base, 2 * base)
        self.up = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.dec = conv_block(2 * base, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        up = self.up(b)
        if up.shape[-2:] != a.shape[-2:]:
            up = F.interpolate(up, size=a.shape[-2:], mode="bilinear", align_corners=False)
        return self.out(self.dec(torch.cat([a, up], dim=1)))


def disks(n, size, device):
    axis = torch.arange(size, device=device, dtype=torch.float32)
    cy, cx = torch.rand(2, n, 1, 1, device=device) * (size - 8) + 4
    r = torch.rand(n, 1, 1, device=device) * 3 + 2
    mask = ((axis.view(1, -1, 1) - cy) ** 2 + (axis.view(1, 1, -1) - cx) ** 2 < r**2).float().unsqueeze(1)
    return mask + 0.4 * torch.randn_like(mask), mask


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = MiniUNet().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    net.train()
    for it in range(30):
        image, mask = disks(8, 17, device)
        weight = boundary_weight(mask)
        loss = F.binary_cross_entropy_with_logits(net(image), mask, weight=weight, reduction="sum") / weight.sum()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if it % 10 == 0:
            print(f"{it}: {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        image, mask = disks(16, 17, device)
        pred = net(image) > 0
        truth = mask.bool()
        iou = (pred & truth).sum() / (pred | truth).sum().clamp(min=1)
    print(f"IoU {iou.item():.3f}")
