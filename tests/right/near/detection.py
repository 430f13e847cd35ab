"""A detector's losses: images without objects, boxes matched by overlap, focal loss on logits."""
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def iou(a, b):
    top = torch.maximum(a[:, None, :2], b[None, :, :2])
    low = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = (low - top).clamp(min=0).prod(dim=-1)
    areas = [(x[:, 2:] - x[:, :2]).prod(dim=-1) for x in (a, b)]
    return inner / (areas[0][:, None] + areas[1][None] - inner).clamp(min=1e-6)


def focal(logits, target, alpha=0.25, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p = torch.sigmoid(logits)
    p_t = p * target + (1 - p) * (1 - target)
    weight = alpha * target + (1 - alpha) * (1 - target)
    return (weight * (1 - p_t) ** gamma * ce).sum()


class Detector(nn.Module):
    def __init__(self, classes=3, size=32, stride=8):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, stride, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU())
        self.classify, self.regress = nn.Conv2d(16, classes, 1), nn.Conv2d(16, 4, 1)
        nn.init.constant_(self.classify.bias, -4.6)
        at = (torch.arange(size // stride) + 0.5) * stride
        y, x = torch.meshgrid(at, at, indexing="ij")
        centres = torch.stack([x, y], dim=-1).reshape(-1, 2)
        self.register_buffer("anchors", torch.cat([centres - 6, centres + 6], dim=-1))

    def forward(self, images):
        h = self.body(images)
        scores = self.classify(h).permute(0, 2, 3, 1).flatten(1, 2)
        deltas = self.regress(h).permute(0, 2, 3, 1).flatten(1, 2)
        return scores, self.anchors + deltas


def loss_of(model, images, targets):
    scores, boxes = model(images)
    total, found = scores.new_zeros(()), 0
    for score, box, target in zip(scores, boxes, targets):
        wanted = torch.zeros_like(score)
        if len(target["boxes"]):
            overlap, owner = iou(model.anchors, target["boxes"]).max(dim=1)
            hit = overlap > 0.2
            wanted[hit, target["labels"][owner[hit]]] = 1.0
            total = total + F.l1_loss(box[hit], target["boxes"][owner[hit]], reduction="sum")
            found += int(hit.sum())
        total = total + focal(score, wanted)
    return total / max(found, 1)


def main(steps=3):
    torch.manual_seed(0)
    model = Detector().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(steps):
        images = torch.rand(2, 3, 32, 32, device=device)
        some = {"boxes": torch.tensor([[2.0, 2.0, 16.0, 16.0]], device=device), "labels": torch.tensor([1], device=device)}
        none = {"boxes": torch.zeros(0, 4, device=device), "labels": torch.zeros(0, dtype=torch.long, device=device)}
        loss = loss_of(model, images, [some, none])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    print(main())
