"""Auxiliary heads at lower resolution in training only; the criterion takes one output or many."""
from typing import Dict, Union

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AuxNet(nn.Module):
    def __init__(self, classes: int = 3, c: int = 8):
        super().__init__()
        self.stage1 = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(2, c), nn.ReLU())
        self.stage2 = nn.Sequential(nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.GroupNorm(2, 2 * c), nn.ReLU())
        self.aux = nn.Conv2d(c, classes, 1)
        self.head = nn.Conv2d(2 * c, classes, 1)

    def forward(self, x: Tensor) -> Union[Tensor, Dict[str, Tensor]]:
        low = self.stage1(x)
        main = F.interpolate(self.head(self.stage2(low)), size=x.shape[-2:], mode="bilinear", align_corners=False)
        if not self.training:
            return main
        return {"out": main, "aux": self.aux(F.avg_pool2d(low, 2))}


class SegCriterion(nn.Module):
    def __init__(self, aux_weight: float = 0.4, ignore_index: int = 255):
        super().__init__()
        self.aux_weight = aux_weight
        self.ignore_index = ignore_index

    def single(self, logits: Tensor, target: Tensor) -> Tensor:
        if logits.shape[-2:] != target.shape[-2:]:
            small = F.interpolate(target.unsqueeze(1).float(), size=logits.shape[-2:], mode="nearest")
            target = small.squeeze(1).long()
        return F.cross_entropy(logits, target, ignore_index=self.ignore_index)

    def forward(self, output, target: Tensor) -> Tensor:
        if isinstance(output, dict):
            return self.single(output["out"], target) + self.aux_weight * self.single(output["aux"], target)
        return self.single(output, target)


def halves(n: int, device: torch.device):
    target = torch.zeros(n, 12, 12, dtype=torch.long, device=device)
    target[:, :, 6:] = 1
    target[:, 8:, :4] = 2
    target = torch.where(torch.rand(n, 1, 1, device=device) < 0.5, target, target.flip(-1))
    image = F.one_hot(target, 3).movedim(-1, 1).float() + 0.5 * torch.randn(n, 3, 12, 12, device=device)
    target[:, 0, 0] = 255
    return image, target


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net, criterion = AuxNet().to(device), SegCriterion()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        net.train()
        for _ in range(10):
            image, target = halves(8, device)
            opt.zero_grad()
            loss = criterion(net(image), target)
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            image, target = halves(16, device)
            out = net(image)
            print(f"epoch {epoch}: train {loss.item():.3f} validation {criterion(out, target).item():.3f}")


if __name__ == "__main__":
    main()
