"""bfloat16 autocast without a scaler; reductions and the loss stay in float32."""
import torch
import torch.nn.functional as F
from torch import nn


class ConvNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.conv2(x))
        return self.fc(x.mean(dim=(2, 3)))


def quadrant_images(n, device):
    y = torch.randint(3, (n,), device=device)
    img = 0.3 * torch.randn(n, 1, 8, 8, device=device)
    img[y == 0, :, :4] += 1
    img[y == 1, :, 4:] -= 1
    img[y == 2, :, :, ::2] += 1
    return img, y


@torch.no_grad()
def evaluate(model, images, labels, amp_dtype):
    model.eval()
    with torch.autocast(images.device.type, dtype=amp_dtype):
        logits = model(images)
    return F.cross_entropy(logits.float(), labels).item(), (logits.argmax(1) == labels).float().mean().item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ConvNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(40):
        model.train()
        images, labels = quadrant_images(32, device)
        with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
            logits = model(images)
        loss = F.cross_entropy(logits.float(), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"{step:3d} loss {loss.item():.3f} logits in {logits.dtype}")
    images, labels = quadrant_images(128, device)
    print("validation loss %.3f, accuracy %.3f" % evaluate(model, images, labels, torch.bfloat16))
    assert all(p.dtype == torch.float32 for p in model.parameters())


if __name__ == "__main__":
    main()
