import torch
import torch.nn as nn
import torch.nn.functional as F


def weighted_focal_loss(logits, labels, sample_weight, gamma=2.0):
    """Focal loss where each sample counts with its own weight."""
    logp = F.log_softmax(logits, dim=-1)
    logp_y = logp.gather(1, labels[:, None]).squeeze(1)
    p_y = logp_y.exp()
    focal = -((1.0 - p_y) ** gamma) * logp_y
    weighted = focal * sample_weight / sample_weight.mean()
    return focal.mean()


class SmallCNN(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.body(x))


def main():
    torch.manual_seed(0)
    images = torch.randn(30, 1, 16, 16)
    labels = torch.cat([torch.zeros(20), torch.ones(7), torch.full((3,), 2.0)]).long()
    images += labels[:, None, None, None].float()
    counts = torch.bincount(labels, minlength=3).float()
    weight = (1.0 / counts)[labels]
    net = SmallCNN()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for it in range(10):
        loss = weighted_focal_loss(net(images), labels, weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("final loss", loss.item())


if __name__ == "__main__":
    main()
