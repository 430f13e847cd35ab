"""Segmentation with cross-entropy and soft dice, both blind to pixels labelled 255."""
import torch
import torch.nn as nn
import torch.nn.functional as F

IGNORE = 255
CLASSES = 3


def soft_dice(logits, target, eps=1.0):
    valid = (target != IGNORE).unsqueeze(1)
    safe = target.masked_fill(target == IGNORE, 0)
    one_hot = F.one_hot(safe, CLASSES).permute(0, 3, 1, 2).to(logits.dtype) * valid
    prob = logits.softmax(dim=1) * valid
    inter = (prob * one_hot).sum(dim=(0, 2, 3))
    total = prob.sum(dim=(0, 2, 3)) + one_hot.sum(dim=(0, 2, 3))
    return 1 - ((2 * inter + eps) / (total + eps)).mean()


class FCN(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=2, dilation=2), nn.ReLU(inplace=True),
            nn.Conv2d(width, CLASSES, 1),
        )

    def forward(self, x):
        return self.net(x)


def scene(n, device):
    """Two intensity bands on a background; a frame of unlabelled pixels around each image."""
    target = torch.zeros(n, 16, 16, dtype=torch.long, device=device)
    rows = torch.arange(16, device=device).view(1, 16, 1)
    start = torch.randint(2, 9, (n, 1, 1), device=device)
    target.masked_fill_((rows >= start) & (rows < start + 3), 1)
    target.masked_fill_((rows >= start + 3) & (rows < start + 6), 2)
    image = target.unsqueeze(1).float() / 2 + 0.15 * torch.randn(n, 1, 16, 16, device=device)
    target[:, [0, -1], :] = IGNORE
    target[:, :, [0, -1]] = IGNORE
    return image, target


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = FCN().to(device)
    ce = nn.CrossEntropyLoss(ignore_index=IGNORE)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(40):
        image, target = scene(8, device)
        logits = net(image)
        loss = ce(logits, target) + soft_dice(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step}: {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        image, target = scene(16, device)
        pred = net(image).argmax(1)
        labelled = target != IGNORE
        print(f"pixel accuracy {(pred == target)[labelled].float().mean().item():.3f}")


if __name__ == "__main__":
    main()
