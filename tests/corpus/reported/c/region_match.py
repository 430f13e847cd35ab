# source: https://github.com/AggMan96/RK-Net/issues/9
# target: script
# truth: the border of the attention map, which is the output of a ReLU, is set to zero in place; backward stops with
#   "one of the variables needed for gradient computation has been modified by an inplace operation"
import torch
import torch.nn as nn
import torch.nn.functional as F


class UnitSubtraction(nn.Module):
    """Spatial attention from the differences between shifted copies of the feature map."""

    def __init__(self, kernel_size=3, padding=1, polish=True):
        super().__init__()
        self.padding = padding
        self.polish = polish
        kernel = torch.ones((kernel_size, kernel_size))
        kernel = kernel.unsqueeze(0).unsqueeze(0)
        self.weight = nn.Parameter(data=kernel, requires_grad=False)
        kernel2 = torch.ones((1, 1)) * (kernel_size * kernel_size)
        self.weight2 = nn.Parameter(data=kernel2.unsqueeze(0).unsqueeze(0), requires_grad=False)

    def _response(self, x):
        u = x.sum(1, keepdim=True)
        summed = F.conv2d(u, self.weight, padding=self.padding)
        scaled = F.conv2d(u, self.weight2, padding=0)
        return F.relu(scaled - summed)

    def forward(self, x):
        att = self._response(x)
        if self.polish:
            att[:, :, :, 0] = 0  # culprit
            att[:, :, :, -1] = 0
            att[:, :, 0, :] = 0
            att[:, :, -1, :] = 0
        return x + att * x


class Branch(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.attention = UnitSubtraction()
        self.conv2 = nn.Sequential(nn.Conv2d(channels, channels * 2, 3, stride=2, padding=1), nn.ReLU())

    def forward(self, x):
        x = self.conv1(x)
        x = self.attention(x)
        return self.conv2(x).mean(dim=(2, 3))


class TwoViewNet(nn.Module):
    def __init__(self, num_classes, share_weight=True):
        super().__init__()
        self.satellite = Branch()
        self.drone = self.satellite if share_weight else Branch()
        self.bottleneck = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.5))
        self.classifier = nn.Linear(32, num_classes)

    def forward(self, sat, drone):
        outputs = []
        for branch, image in ((self.satellite, sat), (self.drone, drone)):
            outputs.append(self.classifier(self.bottleneck(branch(image))))
        return outputs


def train_model(model, optimizer, scheduler, criterion, device, num_epochs=2, iterations=3):
    for epoch in range(num_epochs):
        model.train()
        running_loss = 0.0
        for _ in range(iterations):
            labels = torch.randint(0, 5, (6,), device=device)
            sat = torch.rand(6, 3, 24, 24, device=device)
            drone = torch.rand(6, 3, 24, 24, device=device)
            optimizer.zero_grad()
            out_s, out_d = model(sat, drone)
            loss = criterion(out_s, labels) + criterion(out_d, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        scheduler.step()
        print("Epoch {}/{} loss {:.4f}".format(epoch, num_epochs - 1, running_loss / iterations))


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = TwoViewNet(num_classes=5).to(device)
    head = list(net.bottleneck.parameters()) + list(net.classifier.parameters())
    opt = torch.optim.SGD(
        [{"params": net.satellite.conv1.parameters(), "lr": 0.001},
         {"params": net.satellite.conv2.parameters(), "lr": 0.001},
         {"params": head, "lr": 0.01}], momentum=0.9)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=40, gamma=0.1)
    train_model(net, opt, sched, nn.CrossEntropyLoss(), device)
