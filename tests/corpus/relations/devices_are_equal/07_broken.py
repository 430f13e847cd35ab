"""Single-class box detector with two anchor levels on synthetic squares."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def grid_anchors(size, stride, side):
    c = (torch.arange(size // stride) + 0.5) * stride
    y, x = torch.meshgrid(c, c, indexing="ij")
    s = torch.full_like(x, float(side))
    return torch.stack([x, y, s, s], dim=-1).view(-1, 4)


class AnchorDetector(nn.Module):
    def __init__(self, size=32, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 4, stride=4), nn.ReLU())
        self.levels = nn.ModuleList([
            nn.Sequential(nn.Conv2d(width, width, 3, stride=s, padding=1), nn.ReLU(),
                          nn.Conv2d(width, 5, 1)) for s in (1, 2)])
        self.anchors = [grid_anchors(size, 4, 6), grid_anchors(size, 8, 12)]

    def forward(self, images):
        h = self.stem(images)
        boxes, scores = [], []
        for level, anchor in zip(self.levels, self.anchors):
            out = level(h).flatten(2).transpose(1, 2)
            center = anchor[:, :2] + out[..., :2] * anchor[:, 2:]
            extent = anchor[:, 2:] * out[..., 2:4].clamp(max=4).exp()
            boxes.append(torch.cat([center, extent], dim=-1))
            scores.append(out[..., 4])
        return torch.cat(boxes, dim=1), torch.cat(scores, dim=1)


def squares(n, size=32):
    images, boxes = 0.1 * torch.rand(n, 1, size, size), torch.zeros(n, 4)
    for i in range(n):
        s = int(torch.randint(5, 14, ()))
        x, y = (int(torch.randint(0, size - s, ())) for _ in range(2))
        images[i, 0, y:y + s, x:x + s] += 1
        boxes[i] = torch.tensor([x + s / 2, y + s / 2, s, s])
    return images, boxes


def detection_loss(boxes, scores, target):
    cost = (boxes.detach() - target[:, None]).abs().sum(-1)
    best = cost.argmin(dim=1)
    picked = boxes.gather(1, best[:, None, None].expand(-1, 1, 4)).squeeze(1)
    return F.smooth_l1_loss(picked, target) + F.cross_entropy(scores, best)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AnchorDetector().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    images, boxes = (t.to(device) for t in squares(24))
    for step in range(10):
        loss = detection_loss(*model(images), boxes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")
