"""A one-shot grid detector: objectness on every cell, box and class losses on responsible cells only."""
import torch
from torch import nn
from torch.nn import functional as F

S, CLASSES, IMG = 4, 2, 16
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_batch(n):
    """One rectangle per image; class 0 is wide, class 1 is tall. Returns images, boxes in [0, 1] and labels."""
    labels = torch.randint(CLASSES, (n,))
    images, boxes = torch.zeros(n, 1, IMG, IMG), torch.zeros(n, 4)
    for i, c in enumerate(labels.tolist()):
        w, h = (8, 4) if c == 0 else (4, 8)
        x = torch.randint(0, IMG - w + 1, ()).item()
        y = torch.randint(0, IMG - h + 1, ()).item()
        images[i, :, y : y + h, x : x + w] = 1.0
        boxes[i] = torch.tensor([x + w / 2, y + h / 2, w, h]) / IMG
    return images.to(device), boxes.to(device), labels.to(device)


class GridNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], 1
        for c_out in (8, 16):
            layers += [nn.Conv2d(c, c_out, 3, stride=2, padding=1), nn.LeakyReLU(0.1)]
            c = c_out
        self.features = nn.Sequential(*layers, nn.Conv2d(c, 32, 3, padding=1), nn.LeakyReLU(0.1))
        self.out = nn.Conv2d(32, 1 + 4 + CLASSES, 1)

    def forward(self, x):
        y = self.out(self.features(x)).permute(0, 2, 3, 1)
        obj, box, cls = y.split([1, 4, CLASSES], dim=-1)
        return obj.squeeze(-1), box.sigmoid(), cls


def responsible_cells(boxes):
    cell = (boxes[:, :2] * S).floor().long().clamp(0, S - 1)
    return cell[:, 1], cell[:, 0]


def criterion(out, boxes, labels):
    obj, box, cls = out
    row, col = responsible_cells(boxes)
    batch = torch.arange(len(boxes), device=boxes.device)
    mask = torch.zeros_like(obj)
    mask[batch, row, col] = 1.0
    loss_obj = F.binary_cross_entropy_with_logits(obj, mask, pos_weight=obj.new_full((), S * S / 2.0))
    offset = boxes[:, :2] * S - torch.stack([col, row], dim=1)
    target = torch.cat([offset, boxes[:, 2:].sqrt()], dim=1)
    loss_box = F.mse_loss(box[batch, row, col], target)
    loss_cls = F.cross_entropy(cls[batch, row, col], labels)
    return loss_obj + 5 * loss_box + loss_cls, mask.bool()


def main():
    torch.manual_seed(0)
    net = GridNet().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for it in range(80):
        images, boxes, labels = make_batch(16)
        loss, _ = criterion(net(images), boxes, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 20 == 0:
            print(f"{it}: {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        images, boxes, labels = make_batch(64)
        out = net(images)
        loss, mask = criterion(out, boxes, labels)
        hit = out[0].flatten(1).argmax(1) == mask.flatten(1).float().argmax(1)
    print(f"validation loss {loss.item():.3f}, right cell {hit.float().mean().item():.2f}")


if __name__ == "__main__":
    main()
