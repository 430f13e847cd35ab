"""Fine-tune a head on a frozen backbone: its parameters need no gradient and its batch norm stays in eval."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )

    def forward(self, x):
        return self.net(x)


class FineTuner(nn.Module):
    def __init__(self, backbone, width, classes):
        super().__init__()
        self.backbone = backbone
        self.backbone.requires_grad_(False)
        self.head = nn.Linear(width, classes)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()  # running statistics must not drift
        return self

    def forward(self, x):
        with torch.no_grad():
            feats = self.backbone(x)
        return self.head(feats)


def stripes(n, device):
    labels = torch.randint(2, (n,), device=device)
    img = torch.zeros(n, 1, 12, 12, device=device)
    horizontal = labels.bool().logical_not()
    img[horizontal, :, ::2, :] = 1.0
    img[labels.bool(), :, :, ::2] = 1.0
    return img + 0.2 * torch.randn_like(img), labels


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = FineTuner(Backbone(16), 16, 2).to(device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.Adam(trainable, lr=5e-2)
    before = model.backbone.net[1].running_mean.clone()
    model.train()
    for step in range(60):
        x, y = stripes(32, device)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"{step:3d} {loss.item():.4f}")
    assert torch.equal(before, model.backbone.net[1].running_mean)
    assert all(p.grad is None for p in model.backbone.parameters())
    model.eval()
    with torch.no_grad():
        x, y = stripes(200, device)
        print("accuracy", (model(x).argmax(1) == y).float().mean().item())


if __name__ == "__main__":
    main()
