# source: https://github.com/vikrant7/mobile-vod-bottleneck-lstm/issues/25
# target: train
# truth: the recurrent state is detached once per epoch instead of after every clip; the second clip's backward runs
#   into the first clip's freed graph and updated weights and raises a RuntimeError
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class BottleneckLSTMCell(nn.Module):
    def __init__(self, in_channels, hidden_channels):
        super().__init__()
        self.hidden_channels = hidden_channels
        self.bottleneck = nn.Conv2d(in_channels + hidden_channels, hidden_channels, 3, padding=1)
        self.gates = nn.Conv2d(hidden_channels, 4 * hidden_channels, 3, padding=1)
        self.state = None

    def init_hidden(self, batch, height, width, device):
        zeros = torch.zeros(batch, self.hidden_channels, height, width, device=device)
        self.state = (zeros, zeros.clone())

    def detach_hidden(self):
        if self.state is not None:
            self.state = tuple(s.detach() for s in self.state)

    def forward(self, x):
        if self.state is None:
            self.init_hidden(x.size(0), x.size(2), x.size(3), x.device)
        h, c = self.state
        b = F.relu6(self.bottleneck(torch.cat([x, h], 1)))
        i, f, o, g = self.gates(b).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * F.relu6(g)
        h = torch.sigmoid(o) * F.relu6(c)
        self.state = (h, c)
        return h


class SSDHead(nn.Module):
    def __init__(self, channels, num_classes, anchors=2):
        super().__init__()
        self.num_classes = num_classes
        self.cls = nn.Conv2d(channels, anchors * num_classes, 1)
        self.reg = nn.Conv2d(channels, anchors * 4, 1)

    def forward(self, x):
        n = x.size(0)
        conf = self.cls(x).permute(0, 2, 3, 1).reshape(n, -1, self.num_classes)
        return conf, self.reg(x).permute(0, 2, 3, 1).reshape(n, -1, 4)


class MobileVOD(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU6())
        self.bottleneck_lstm = BottleneckLSTMCell(8, 8)
        self.head = SSDHead(8, num_classes)

    def detach_hidden(self):
        self.bottleneck_lstm.detach_hidden()

    def forward(self, image):
        return self.head(self.bottleneck_lstm(self.backbone(image)))


def multibox_loss(confidence, locations, labels, boxes):
    cls = F.cross_entropy(confidence.flatten(0, 1), labels.flatten())
    pos = labels > 0
    reg = F.smooth_l1_loss(locations[pos], boxes[pos], reduction="sum") / pos.sum().clamp(min=1)
    return reg, cls


def synthetic_clips(n_clips, seq_len, gen):
    for _ in range(n_clips):
        yield [(torch.rand(2, 3, 16, 16, generator=gen), torch.rand(2, 32, 4, generator=gen),
                torch.randint(0, 3, (2, 32), generator=gen)) for _ in range(seq_len)]


def train(loader, net, optimizer, device, epoch):
    net.train(True)
    running_loss = 0.0
    for step, clip in enumerate(loader):
        optimizer.zero_grad()
        loss = 0.0
        for images, boxes, labels in clip:
            images, boxes, labels = images.to(device), boxes.to(device), labels.to(device)
            confidence, locations = net(images)
            regression_loss, classification_loss = multibox_loss(confidence, locations, labels, boxes)
            loss = loss + regression_loss + classification_loss
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    net.detach_hidden()  # culprit
    print("epoch %d avg loss %.4f" % (epoch, running_loss / (step + 1)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--seq-len", default=3, type=int)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = MobileVOD().to(device)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(0)
    for epoch in range(args.epochs):
        train(synthetic_clips(4, args.seq_len, gen), net, optimizer, device, epoch)
